"""Commands for those who develop sknet; run in a checkout."""
