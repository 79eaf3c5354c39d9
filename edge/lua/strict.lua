-- Requests that are unambiguous: what two HTTP parsers could read differently never reaches an application.
local base = require 'resty.core.base'
require 'resty.core.request'
local ffi = require 'ffi'

local find, gsub, lower = string.find, string.gsub, string.lower
local truncated = ffi.new('int[1]')

local M = {}

local MAX_HEADERS = 100

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
function M.admit(var)
  local raw
  if ngx.req.http_version() == 2 then
    if header_count() > MAX_HEADERS or not unframed(var) then return ngx.exit(400) end
    -- With the headers nginx has not seen yet whether a body follows that has been said to be empty; if one does, it refuses the request here.
    if var.http_content_length == '0' then ngx.req.read_body() end
  else
    raw = ngx.req.raw_header()
    if not well_formed(raw) then return ngx.exit(400) end
  end
  if not one_host(var) then return ngx.exit(400) end
  return raw
end

-- Whether the headers of a GET or HEAD leave open if a body follows.
function M.is_unannounced(var)
  local method = var.request_method
  return (method == 'GET' or method == 'HEAD') and not var.http_content_length and ngx.req.http_version() == 2
end

-- Whether a body comes with a GET or HEAD. HTTP/2 need not announce one, and only the end of its stream says that there is none: that end is
-- awaited, and what came before it is kept for the application. A module of Lua that refuses to read such a request leaves it unknown,
-- which counts as a body.
function M.has_body(var)
  if var.http_transfer_encoding then return true end
  if var.http_content_length then return var.http_content_length ~= '0' end
  if ngx.req.http_version() ~= 2 then return false end
  return not pcall(ngx.req.read_body) or ngx.req.get_body_data() ~= nil or ngx.req.get_body_file() ~= nil
end

-- In CGI-like applications `X_Forwarded_For` becomes the same variable as `X-Forwarded-For`, so such names are dropped.
function M.drop_odd_headers(raw)
  if raw and not find(raw, '\n[%w-]*[^%w:\r-][^:\r]*:') then return end
  for name in pairs(ngx.req.get_headers(0, true)) do
    if find(name, '[^%w-]') then ngx.req.clear_header(name) end
  end
end

return M
