-- The answers of the proxy itself, for people and for clients. Never cached.
local settings = require 'settings'

local M = {}

local DEFAULT = { 'This request was refused', 'The proxy in front of this application could not accept the request.' }
local PAGES = {
  [400] = { 'This request is malformed', 'The proxy could not read the request unambiguously, so it was not forwarded.' },
  [404] = { 'There is no application here', 'No application answers at %s. Check the address, or deploy an application with this name.' },
  [413] = { 'The body is too large', 'The request is larger than this platform forwards to applications.' },
  [421] = { 'This connection cannot be used', 'The connection uses an older version of TLS than the application at %s requires.' },
  [431] = { 'The headers are too large', 'The address or the headers of the request, cookies included, are larger than this platform forwards.' },
  [429] = { 'Too many connections', 'Your address has too many open requests. Wait until some have finished.' },
  [502] = { 'The application is not reachable', 'The application at %s exists, but does not answer right now. It may be starting, stopped, or crashed; its status and logs show which.' },
  [503] = { 'The application is not reachable', 'The application at %s exists, but cannot accept requests right now. Try again in a moment.' },
  [504] = { 'The application takes too long', 'The application at %s accepted the request, but did not answer in time.' },
}
-- Where the status alone does not say why; by the router's reason.
local REASONS = {
  full = { 'The application has too many visitors', 'The application at %s has reached its limit of open requests. Try again in a moment.' },
  share = { 'The application has too many visitors', 'The owner of the application at %s has reached the limit of open requests of all their applications. Try again in a moment.' },
  blocked = { 'Your address is blocked', 'The application at %s does not accept requests from your network.' },
  rate = { 'Too many requests', 'The application at %s accepts no more requests from your network this minute. Try again in a minute.' },
  maintenance = { 'The application is under maintenance', 'The application at %s is closed for maintenance. Try again later.' },
}
local HTTPS_ONLY = { 'This address requires https', 'Requests over plain http can be read by others on the network, so this one was not forwarded. Use https://%s instead.' }
local FRAME = [[<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:34em;margin:20vh auto;padding:0 1.5em;color:#222}h1{font-size:1.4em}small{color:#777}@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}}</style>
</head><body><h1>%s</h1><p>%s</p><p><small>%d &middot; %s</small></p></body></html>
]]

local UNKNOWN = 'Nothing answers this method here.'
local MALFORMED = 'The request is malformed.'
local HEADERS = 'The headers are too large: 16 KB in all, 8 KB for one.'
local OLDER_TLS = 'The connection uses an older version of TLS than this host name requires.'
local TOO_MANY = 'Too many open connections from this address.'
local AWAY = 'The platform does not answer right now. Try again in a moment.'
local UNEXPECTED = 'An unexpected error occurred. Report the request id: its cause is logged with it.'
local LATE = 'The platform did not answer in time.'
local HTTPS_ONLY_TEXT = 'This platform requires https: requests over plain http can be read by others on the network. Replace any credentials that were sent.'

-- By wire and status of the proxy: the wire's own status, its code, and a sentence. A surface without codes answers with text.
local WIRES = {
  api = {
    [400] = { 400, 'INVALID_INPUT', MALFORMED },
    [405] = { 404, 'ROUTE_NOT_FOUND', UNKNOWN },
    [421] = { 421, 'INVALID_INPUT', OLDER_TLS },
    [429] = { 429, 'KEEP_CALM', TOO_MANY },
    [431] = { 431, 'INVALID_INPUT', HEADERS },
    [500] = { 500, 'INTERNAL_SERVER_ERROR', UNEXPECTED },
    [503] = { 503, 'CLUSTER_MAINTENANCE_TRY_LATER', AWAY },
    [504] = { 504, 'CLUSTER_TIMEOUT', LATE },
  },
  blob = {
    [400] = { 400, 'INVALID_INPUT', MALFORMED },
    [405] = { 404, 'NOT_FOUND', UNKNOWN },
    [421] = { 421, 'INVALID_INPUT', OLDER_TLS },
    [429] = { 429, 'RATE_LIMITED', TOO_MANY },
    [431] = { 431, 'INVALID_INPUT', HEADERS },
    [500] = { 500, 'INTERNAL_SERVER_ERROR', UNEXPECTED },
    [503] = { 503, 'PRIVATE_STORAGE_UNAVAILABLE', AWAY },
    [504] = { 503, 'PRIVATE_STORAGE_UNAVAILABLE', LATE },
  },
  s3 = {
    [400] = { 400, 'InvalidRequest', MALFORMED },
    [405] = { 405, 'MethodNotAllowed', UNKNOWN },
    [421] = { 421, 'InvalidRequest', OLDER_TLS },
    [429] = { 503, 'SlowDown', TOO_MANY },
    [431] = { 400, 'InvalidRequest', HEADERS },
    [500] = { 500, 'InternalError', UNEXPECTED },
    [503] = { 503, 'ServiceUnavailable', AWAY },
    [504] = { 503, 'ServiceUnavailable', LATE },
  },
  text = {
    [400] = { 400, nil, MALFORMED },
    [405] = { 404, nil, UNKNOWN },
    [421] = { 421, nil, OLDER_TLS },
    [429] = { 429, nil, TOO_MANY },
    [431] = { 431, nil, HEADERS },
    [500] = { 500, nil, UNEXPECTED },
    [503] = { 503, nil, AWAY },
    [504] = { 504, nil, LATE },
  },
}

local MAINTENANCE_SECONDS = 60

local function retry_after(refusal)
  if refusal == 'rate' then return settings.counted_for() end
  if refusal == 'maintenance' then return MAINTENANCE_SECONDS end
  return (ngx.status == 429 or ngx.status == 502 or ngx.status == 503) and 2 or nil
end

local function uncached(refusal)
  ngx.header['Cache-Control'] = 'no-store'
  ngx.header['X-Request-Id'] = ngx.var.request_number
  ngx.header['Retry-After'] = retry_after(refusal)
end

local function in_the_clear(refused)
  return refused and ngx.var.in_the_clear == '1'
end

local UNREACHABLE = { [502] = true, [503] = true, [504] = true }

-- What the application has set to be shown instead of our page; nil where it has not, or where it would not fit.
local function own_page(refusal)
  local member = ngx.var.member or ''
  if member == '' then return nil end
  local kind = refusal == 'maintenance' and refusal or UNREACHABLE[ngx.status] and 'error'
  return kind and settings.page(kind, member, ngx.var.app_id)
end

-- For a host name of an application: its own page, or a small one for people. `refused` = this port refuses plain http of other machines.
function M.application(refused)
  local refusal = ngx.var.refusal
  uncached(refusal)
  ngx.header['Content-Type'] = 'text/html; charset=utf-8'
  local own = own_page(refusal)
  if own then return ngx.print(own) end
  local page = in_the_clear(refused) and HTTPS_ONLY or REASONS[refusal] or PAGES[ngx.status] or DEFAULT
  local host = (ngx.var.host or ''):gsub('[^%w.-]', '')
  local text = page[2]:format(host)
  ngx.print(FRAME:format(page[1], page[1], text, ngx.status, ngx.var.request_number))
end

local JSON = '{"status":"error","code":"%s","message":"%s"}'
local XML = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message><RequestId>%s</RequestId></Error>'

-- For a surface of the platform: an answer in the format of its wire.
function M.surface(surface, refused)
  local wire = WIRES[surface] or WIRES.text
  local status, code, message = unpack(wire[ngx.status] or wire[503], 1, 3)
  if in_the_clear(refused) then message = HTTPS_ONLY_TEXT end
  ngx.status = status
  uncached()
  if surface == 's3' then
    ngx.header['Content-Type'] = 'application/xml'
    ngx.print(XML:format(code, message, ngx.var.request_number))
  elseif code then
    ngx.header['Content-Type'] = 'application/json; charset=utf-8'
    ngx.print(JSON:format(code, message))
  else
    ngx.header['Content-Type'] = 'text/plain; charset=utf-8'
    ngx.print(message .. '\n')
  end
end

return M
