"""Mail: `message.py` has the text of a message and who wrote it when, `mailbox.py` cuts a mailbox into messages.

`formats.py` has both as formats of the kind "files".
"""
