DISPLAY_NAME=Browser Upload
DESCRIPTION=Visitors upload files straight into blob storage
MAIN=server.mjs
MEMORY=512
VERSION=recommended
SUBDOMAIN=upload
