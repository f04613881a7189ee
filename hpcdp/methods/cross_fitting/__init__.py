"""Cross-fitting: every sample teaches and tests."""
