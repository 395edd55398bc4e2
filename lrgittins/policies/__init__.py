"""Policies: which arm to evaluate next. One file a policy; `base` holds what they share, `state` saves and loads."""
