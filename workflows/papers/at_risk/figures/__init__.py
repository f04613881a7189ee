"""The figures of Dandekar, Basu and Bressan (PoPETs 2021): what is computed, checked and drawn."""
