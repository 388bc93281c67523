"""The same four agents in every framework, each with a fake model of that framework's own kind.

- `talker` streams what the user has said so far in this conversation: a turn that is forgotten is
  missing in it.
- `booker` calls the tool `book`, which a person has to allow, and says what came of it.
- `slow` says a word, and then nothing more until it is stopped.
- `typed` answers with data.
"""
