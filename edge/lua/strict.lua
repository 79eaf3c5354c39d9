-- Requests that are unambiguous: what two HTTP parsers could read differently never reaches an application.
local base = require 'resty.core.base'
require 'resty.core.request'
local ffi = require 'ffi'

local find, gsub, lower = string.find, string.gsub, string.lower
local truncated = ffi.new('int[1]')

local M = {}

local MAX_HEADERS = 100
-- Filled anew in each function that reads it.
local headers = ffi.new('ngx_http_lua_ffi_table_elt_t[?]', MAX_HEADERS)

local function header_count()
  return ffi.C.ngx_http_lua_ffi_req_get_headers_count(base.get_request(), 0, truncated)
end

-- Fills `headers`, without a string of Lua for each of them, and returns their number.
local function read_headers()
  local count = math.min(header_count(), MAX_HEADERS)
  ffi.C.ngx_http_lua_ffi_req_get_headers(base.get_request(), headers, count, 1)
  return count
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
  local count = header_count()
  return count <= MAX_HEADERS and line_count(raw) == count + 2
end

-- In nginx an absolute request target wins over the Host header; the application would see the other name.
local function one_host(host, named)
  if not named then return false end
  return named == host or gsub(gsub(lower(named), ':%d+$', ''), '%.$', '') == host
end

local FRAMING = {
  ['transfer-encoding'] = true, connection = true, upgrade = true, ['keep-alive'] = true, ['proxy-connection'] = true,
}

-- HTTP/2 has frames instead of these headers; whoever passes them on in HTTP/1.1 would change the request (RFC 9113, 8.2.2).
-- What has no unambiguous form in HTTP/2 at all, such as a line break in a value, nginx refuses itself.
local function unframed()
  for at = 0, read_headers() - 1 do
    local key, value = headers[at].key, headers[at].value
    local name = ffi.string(key.data, key.len)
    if FRAMING[name] then return false end
    if name == 'te' and lower(ffi.string(value.data, value.len)) ~= 'trailers' then return false end
  end
  return true
end

-- Refuses requests that two HTTP parsers could read differently, with 400 and, in HTTP/1, a closed connection. Returns the host. `raw` is the
-- header as it was sent, which HTTP/2 does not have.
function M.admit(var, raw)
  if not raw then
    if header_count() > MAX_HEADERS or not unframed() then return ngx.exit(400) end
    -- With the headers nginx has not seen yet whether a body follows that has been said to be empty; if one does, it refuses the request here.
    if var.http_content_length == '0' then ngx.req.read_body() end
  elseif not well_formed(raw) then
    return ngx.exit(400)
  end
  local host = var.host
  if not one_host(host, var.http_host) then return ngx.exit(400) end
  return host
end

-- Whether a body comes with a GET or HEAD. HTTP/2 need not announce one, and only the end of its stream says that there is none: that end is
-- awaited, and what came before it is kept for the application. A module of Lua that refuses to read such a request leaves it unknown,
-- which counts as a body.
function M.has_body(var, http2)
  -- By HTTP/2 it has been refused.
  if not http2 and var.http_transfer_encoding then return true end
  local length = var.http_content_length
  if length then return length ~= '0' end
  if not http2 then return false end
  return not pcall(ngx.req.read_body) or ngx.req.get_body_data() ~= nil or ngx.req.get_body_file() ~= nil
end

local ORDINARY = {}
for code = 0, 255 do ORDINARY[code] = find(string.char(code), '^[%w-]$') ~= nil end

local function is_ordinary(name)
  for at = 0, name.len - 1 do
    if not ORDINARY[name.data[at]] then return false end
  end
  return true
end

-- In CGI-like applications `X_Forwarded_For` becomes the same variable as `X-Forwarded-For`, so such names are dropped.
function M.drop_odd_headers()
  for at = 0, read_headers() - 1 do
    local name = headers[at].key
    if not is_ordinary(name) then ngx.req.clear_header(ffi.string(name.data, name.len)) end
  end
end

return M
