"""The figures of Askin, Kutta and Dette, "Statistical Quantification of Differential Privacy: A Local Approach" (2022)."""
