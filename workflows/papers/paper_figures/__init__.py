"""Figures of papers, measured again: run their studies, check what must hold, draw, and write their pages."""
