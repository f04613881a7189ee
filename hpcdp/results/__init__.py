"""From counts to results, and what is read off them: spectra, verdicts, audits, comparisons."""
