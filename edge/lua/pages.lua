-- What a person or a client reads when the answer comes from the proxy itself. Never cached.
local M = {}

local DEFAULT = { 'This request was refused', 'The proxy in front of this application could not accept the request.' }
local PAGES = {
  [400] = { 'This request is malformed', 'The proxy could not read the request without doubt, so it was not passed on.' },
  [404] = { 'No application lives here', 'No application answers at %s. Check the address, or deploy one with this name.' },
  [413] = { 'The body is too large', 'The request is larger than this platform passes on to applications.' },
  [429] = { 'Too many connections', 'Your address has too many requests open at once. Wait until some have ended.' },
  [502] = { 'The application is not reachable', 'The application at %s exists, but nothing answers there right now. It may be starting, stopped, or have crashed; its status and logs tell which.' },
  [503] = { 'The application is not reachable', 'The application at %s exists, but cannot take requests right now. Try again in a moment.' },
  [504] = { 'The application takes too long', 'The application at %s accepted the request, but did not answer in time.' },
}
local HTTPS_ONLY = { 'This address takes https only', 'Others can read on the way what is sent by plain http, so nothing was passed on. Use https://%s instead.' }
local FRAME = [[<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:34em;margin:20vh auto;padding:0 1.5em;color:#222}h1{font-size:1.4em}small{color:#777}@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}}</style>
</head><body><h1>%s</h1><p>%s</p><p><small>%d &middot; %s</small></p></body></html>
]]

local CODES = {
  [400] = { 'INVALID_INPUT', 'The request is malformed.' },
  [429] = { 'KEEP_CALM', 'Too many connections from this address at once.' },
  [503] = { 'CLUSTER_MAINTENANCE_TRY_LATER', 'The platform is not answering right now. Try again in a moment.' },
  [504] = { 'CLUSTER_TIMEOUT', 'The platform did not answer in time.' },
}

local HTTPS_ONLY_CODE = { 'INVALID_INPUT', 'This platform takes https only: others can read on the way what is sent by plain http. Make credentials that were sent anew.' }

local function uncached()
  ngx.header['Cache-Control'] = 'no-store'
  ngx.header['X-Request-Id'] = ngx.var.request_id
  if ngx.status == 429 or ngx.status == 502 or ngx.status == 503 then ngx.header['Retry-After'] = 2 end
end

-- For a host of applications: a small page in plain words.
function M.application()
  uncached()
  local page = ngx.var.in_the_clear == '1' and HTTPS_ONLY or PAGES[ngx.status] or DEFAULT
  local host = ngx.var.host:gsub('[^%w.-]', '')
  local text = page[2]:format(host)
  ngx.header['Content-Type'] = 'text/html; charset=utf-8'
  ngx.print(FRAME:format(page[1], page[1], text, ngx.status, ngx.var.request_id))
end

-- For a surface of the platform: the envelope of its errors.
function M.surface()
  uncached()
  local code = ngx.var.in_the_clear == '1' and HTTPS_ONLY_CODE or CODES[ngx.status] or CODES[503]
  ngx.header['Content-Type'] = 'application/json'
  ngx.print(('{"status":"error","code":"%s","message":"%s"}'):format(code[1], code[2]))
end

return M
