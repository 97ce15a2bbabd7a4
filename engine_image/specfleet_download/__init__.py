"""The download of a model: an init container that fetches a repository of a model hub.

The engine itself never talks to a hub: it starts offline and reads a folder. `__main__` takes the command
line, `hub` asks the hub what there is, `files` says which of it an engine needs, `store` puts it into a
volume that several pods may share. Every fault ends in one sentence with what to change, as the container's
termination message: the operator quotes it. Source: design/contracts.md, "Model sources".
"""
