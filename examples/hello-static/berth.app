DISPLAY_NAME=Hello Static
DESCRIPTION=A page and a style sheet, nothing else
MAIN=index.html
MEMORY=512
VERSION=recommended
SUBDOMAIN=hello-static
