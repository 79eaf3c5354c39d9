DISPLAY_NAME=Hello Node
DESCRIPTION=The first application of every Berth
MAIN=server.js
MEMORY=512
VERSION=recommended
SUBDOMAIN=hello
