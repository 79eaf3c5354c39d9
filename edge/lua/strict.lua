-- Requests that are unambiguous: what two HTTP parsers could read differently never reaches an application.
local base = require 'resty.core.base'
require 'resty.core.request'
local ffi = require 'ffi'

local find, gsub, lower = string.find, string.gsub, string.lower
local truncated = ffi.new('int[1]')

local M = {}

local MAX_HEADERS = 100
-- Filled anew in each function that reads it: while one request waits another one may come.
local headers = ffi.new('ngx_http_lua_ffi_table_elt_t[?]', MAX_HEADERS)

-- Fills `headers` and returns their number; nil where there are too many.
local function read_headers()
  local request = base.get_request()
  local count = ffi.C.ngx_http_lua_ffi_req_get_headers_count(request, 0, truncated)
  if count > MAX_HEADERS then return nil end
  ffi.C.ngx_http_lua_ffi_req_get_headers(request, headers, count, 1)
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
local function well_formed(raw, count)
  return line_count(raw) == count + 2
end

-- In nginx an absolute request target wins over the Host header; the application would see the other name.
local function one_host(host, named)
  if not named then return false end
  return named == host or gsub(gsub(lower(named), ':%d+$', ''), '%.$', '') == host
end

-- HTTP/2 has frames instead of these headers; a proxy that passes them on in HTTP/1.1 would change the request (RFC 9113, 8.2.2).
-- What has no unambiguous form in HTTP/2 at all, such as a line break in a value, nginx refuses itself.
local FRAMING = {
  ['transfer-encoding'] = true, connection = true, upgrade = true, ['keep-alive'] = true, ['proxy-connection'] = true,
}

-- The kinds of names of headers that have come, in each worker. Clients choose names: their number and length are bounded.
local ORDINARY, ODD, FRAMES, TE = 1, 2, 3, 4
local MAX_NAMES, MAX_NAME_BYTES = 1000, 64
local kinds, name_count = {}, 0

local function kind_of(name)
  local kind = FRAMING[name] and FRAMES or name == 'te' and TE or find(name, '^[%w-]+$') and ORDINARY or ODD
  if #name > MAX_NAME_BYTES then return kind end
  if name_count >= MAX_NAMES then kinds, name_count = {}, 0 end
  kinds[name], name_count = kind, name_count + 1
  return kind
end

-- Whether `headers` have what HTTP/2 has no place for, and whether some of their names are odd.
local function look(count)
  local framed, odd = false, false
  for at = 0, count - 1 do
    local key, value = headers[at].key, headers[at].value
    local name = ffi.string(key.data, key.len)
    local kind = kinds[name] or kind_of(name)
    if kind == ODD then
      odd = true
    elseif kind ~= ORDINARY then
      framed = framed or kind == FRAMES or lower(ffi.string(value.data, value.len)) ~= 'trailers'
    end
  end
  return framed, odd
end

-- Refuses requests that two HTTP parsers could read differently, with 400 and, in HTTP/1, a closed connection. Returns the host, and whether
-- names of headers are odd. `raw` is the header as it was sent, which HTTP/2 does not have.
function M.admit(var, raw)
  local count = read_headers()
  if not count then return ngx.exit(400) end
  local framed, odd = look(count)
  if not raw then
    if framed then return ngx.exit(400) end
    -- With the headers nginx has not seen yet whether a body follows that has been said to be empty; if one does, it refuses the request here.
    if var.http_content_length == '0' then ngx.req.read_body() end
  elseif not well_formed(raw, count) then
    return ngx.exit(400)
  end
  local host = var.host
  if not one_host(host, var.http_host) then return ngx.exit(400) end
  return host, odd
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

-- In CGI-like applications `X_Forwarded_For` becomes the same variable as `X-Forwarded-For`, so such names are dropped.
function M.drop_odd_headers()
  for at = 0, (read_headers() or 0) - 1 do
    local name = ffi.string(headers[at].key.data, headers[at].key.len)
    if kind_of(name) == ODD then ngx.req.clear_header(name) end
  end
end

return M
