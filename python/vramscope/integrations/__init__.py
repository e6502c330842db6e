"""Integrations with other tools: one file per tool, which imports it."""
