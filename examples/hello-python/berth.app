DISPLAY_NAME=Hello Python
DESCRIPTION=A guest book with nothing but the standard library
MAIN=main.py
MEMORY=512
VERSION=recommended
SUBDOMAIN=hello-python
