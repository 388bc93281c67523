"""What is sent, or not read, on purpose: the server stays up, says what is wrong, and gives nothing
away.
"""
