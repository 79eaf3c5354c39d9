-- The path of a request: strict parsing, look-up of its host, choice of the upstream.
local balancer = require 'ngx.balancer'
local base = require 'resty.core.base'
require 'resty.core.request'
local ffi = require 'ffi'
local access_log = require 'access_log'
local certificates = require 'certificates'
local connections = require 'connections'
local routes = require 'routes'
local well_known = require 'well_known'

local find, gsub, lower = string.find, string.gsub, string.lower
local truncated = ffi.new('int[1]')

local M = {}

local MAX_HEADERS = 100
local UPGRADED_SECONDS = 3600
local RETRIES = 2
local SECOND_ATTEMPT_SECONDS = 0.4
-- nginx's own code for an upstream without a live server: a 502 and no further try. Any status returned instead would become a 500.
local NGX_BUSY = -3

local function header_count()
  return ffi.C.ngx_http_lua_ffi_req_get_headers_count(base.get_request(), 0, truncated)
end

local function line_count(raw)
  local count, at = 0, 0
  while true do
    at = find(raw, '\r\n', at + 1, true)
    if not at then return count end
    count = count + 1
  end
end

-- nginx accepts a bare LF as a line end, a proxy before it may not: the two would then see different headers. The lines that
-- end in CRLF must be the request line, each header that nginx has parsed, and the empty line.
local function well_formed(raw)
  local headers = header_count()
  return headers <= MAX_HEADERS and line_count(raw) == headers + 2
end

-- In nginx an absolute request target wins over the Host header; the application would see the other name.
local function one_host(var)
  local named = var.http_host
  if not named then return false end
  if named == var.host then return true end
  return gsub(gsub(lower(named), ':%d+$', ''), '%.$', '') == var.host
end

-- HTTP/2 has frames instead of these headers; whoever passes them on in HTTP/1.1 would change the request (RFC 9113, 8.2.2).
-- What has no unambiguous form in HTTP/2 at all, such as a line break in a value, nginx refuses itself.
local function unframed(var)
  local te = var.http_te
  return not (var.http_transfer_encoding or var.http_connection or var.http_upgrade or var.http_keep_alive
    or var.http_proxy_connection or te and lower(te) ~= 'trailers')
end

-- Refuses requests that two HTTP parsers could read differently, with 400 and, in HTTP/1, a closed connection. Returns the raw header,
-- which HTTP/2 does not have.
function M.strict(var)
  local raw
  if ngx.req.http_version() == 2 then
    if header_count() > MAX_HEADERS or not unframed(var) then return ngx.exit(400) end
  else
    raw = ngx.req.raw_header()
    if not well_formed(raw) then return ngx.exit(400) end
  end
  if not one_host(var) then return ngx.exit(400) end
  return raw
end

-- In CGI-like applications `X_Forwarded_For` becomes the same variable as `X-Forwarded-For`, so such names are dropped.
local function drop_odd_headers(raw)
  if raw and not find(raw, '\n[%w-]*[^%w:\r-][^:\r]*:') then return end
  for name in pairs(ngx.req.get_headers(0, true)) do
    if find(name, '[^%w-]') then ngx.req.clear_header(name) end
  end
end

local https_port

-- The port of redirects to https.
function M.redirect_to(port)
  https_port = port == 443 and '' or ':' .. port
end

-- Plain http is `refused` where another machine could read what is sent, or `redirected` where its host name has a certificate.
local function leave_plain(var, plain)
  if plain == 'refused' and var.in_the_clear == '1' then return ngx.exit(400) end
  if plain ~= 'redirected' or var.client_scheme ~= 'http' or not certificates.covers(var.host) then return end
  -- Not `ngx.redirect`, whose page would be nginx's own.
  ngx.status = 308
  ngx.header['Location'] = 'https://' .. var.host .. https_port .. var.request_uri
  ngx.header['Content-Type'] = 'text/plain'
  ngx.print('This address requires https.\n')
  return ngx.exit(308)
end

-- A session of TLS 1.2 for another name of the same certificate must not reach a name that requires 1.3.
local function misdirected(var)
  return var.ssl_protocol == 'TLSv1.2' and certificates.requires_tls_1_3(var.host)
end

-- What every request passes first. Returns its raw header.
local function pass(var, plain)
  local raw = M.strict(var)
  if access_log.full then var.log_stopped = '1' end
  well_known.answer(var)
  if misdirected(var) then return ngx.exit(421) end
  if plain then leave_plain(var, plain) end
  return raw
end

-- Access phase of a platform surface. `plain` says what happens to plain http; nil on the TLS port.
function M.admit_surface(plain)
  pass(ngx.var, plain)
end

-- Access phase of an application's host. `max` is the limit of its open requests, `room` that of all applications in this worker.
function M.admit(max, room, plain)
  local var = ngx.var
  local raw = pass(var, plain)
  local app, _, port = routes.find(var.host)
  if not app then return ngx.exit(404) end
  var.app_id = app
  if port == '0' then return ngx.exit(503) end
  local entered, full = connections.enter(app, max, room)
  if not entered then
    if full then var.app_full = '1' end
    return ngx.exit(503)
  end
  var.entered = app
  drop_odd_headers(raw)
end

-- Access phase of the second attempt at a request that got no answer: 502, unless it can be repeated and the container refused the last
-- connection. Only a request without a body is still whole here.
function M.again()
  local var = ngx.var
  local safe = var.request_method == 'GET' or var.request_method == 'HEAD'
  local has_body = var.http_transfer_encoding or (var.http_content_length or '0') ~= '0'
  -- One figure for each try, as in `251, 0`; `-` where there was no connection at all.
  local refused = find(var.upstream_bytes_sent or '-', '%f[%d-][0-]$')
  if not safe or has_body or not refused then return ngx.exit(502) end
  ngx.sleep(SECOND_ATTEMPT_SECONDS)
end

-- Log phase of an application's host, which every request reaches, however it ended. An internal redirect to one of our pages keeps variables.
function M.leave()
  local app = ngx.var.entered
  if app and app ~= '' then connections.leave(app) end
end

-- Upstream phase. Reads the table on each try, so that a request whose container was just replaced reaches the new one.
function M.balance()
  local _, address, port = routes.find(ngx.var.host)
  if not address or port == '0' then return ngx.exit(NGX_BUSY) end
  if not balancer.get_last_failure() then balancer.set_more_tries(RETRIES) end
  if ngx.var.upgrade_to ~= '' then balancer.set_timeouts(nil, nil, UPGRADED_SECONDS) end
  if find(address, ':', 1, true) then address = '[' .. address .. ']' end
  local ok, failure = balancer.set_current_peer(address, tonumber(port))
  if not ok then
    ngx.log(ngx.ERR, 'no upstream for ', ngx.var.host, ': ', failure)
    return ngx.exit(NGX_BUSY)
  end
end

return M
