"""The figures of Askin, Dette, Dunsche, Kutta, Lu, Wei and Zikas, "General-Purpose f-DP Estimation and Auditing" (2025)."""
