"""The figures of Lu, Magdon-Ismail, Wei and Zikas, "Eureka" (IEEE S&P 2024), measured again: run, check, draw, describe."""
