-- The certificates of the TLS port, by host name or `*.` and the parent of host names: which of them a handshake gets. A private key
-- appears in no log, list or reason of a refusal.
local clienthello = require 'ngx.ssl.clienthello'
local ssl = require 'ngx.ssl'
local lrucache = require 'resty.lrucache'
local journal = require 'journal'
local settings = require 'settings'

local find_text, lower, match, sub = string.find, string.lower, string.match, string.sub
local HEAD = '^{"host":"([a-z0-9.*-]+)","version":"([%w._-]+)","chain":"()'
local REMOVED = '^{"host":"([a-z0-9.*-]+)","removed":true}$'
local BETWEEN, TAIL = '","key":"', '"}'
local TLS_1_3_ONLY = { 'TLSv1.3' }

-- The value of a record is its line. With 10,000 certificates, whatever looks at each of their bytes takes seconds.
local function record(_, line)
  return line
end

local function shown(host, line)
  local _, version = match(line, HEAD)
  return '{"host":"' .. host .. '","version":"' .. version .. '"}'
end

-- Returns chain and key of a line, or nil.
local function pems(line)
  local _, _, from = match(line, HEAD)
  if not from then return nil end
  local chain_end = find_text(line, '"', from, true)
  if not chain_end or sub(line, chain_end, chain_end + #BETWEEN - 1) ~= BETWEEN then return nil end
  local key_from = chain_end + #BETWEEN
  local key_end = find_text(line, '"', key_from, true)
  if not key_end or sub(line, key_end) ~= TAIL then return nil end
  return sub(line, from, chain_end - 1), sub(line, key_from, key_end - 1)
end

local function parse(line)
  local removed = match(line, REMOVED)
  if removed then return removed, nil end
  if not pems(line) then return nil, nil, 'malformed certificate' end
  return (match(line, HEAD)), line
end

local function is_there()
  return true
end

local M = {
  -- A worker holds which names are covered, and none of the keys.
  table = journal.new { name = 'certificates', parse = parse, record = record, shown = shown, take_apart = is_there },
}

-- Parsing takes longer than the rest of a handshake, so each worker does it once for each certificate.
local parsed

-- How many certificates each worker holds parsed.
function M.remember(count)
  parsed = assert(lrucache.new(count))
end

-- What a certificate of all names next to this one is stored under, or nil.
local function wildcard(name)
  local dot = find_text(name, '.', 1, true)
  return dot and dot > 1 and '*' .. sub(name, dot)
end

-- Returns the record that serves a host name and what it is stored under, or nil.
local function find(name)
  local value = M.table.dict:get(name)
  if value then return value, name end
  local siblings = wildcard(name)
  if not siblings then return nil end
  return M.table.dict:get(siblings), siblings
end

function M.covers(name)
  local siblings = wildcard(name)
  return M.table:find(name) or siblings and M.table:find(siblings)
end

local logged_at

-- An alert is a line of the process's own log, which no number of handshakes may fill.
local function refuse(host, failure)
  if logged_at ~= ngx.time() then ngx.log(ngx.ALERT, 'the certificate of ', host, ' cannot be used: ', failure) end
  logged_at = ngx.time()
  return ngx.exit(ngx.ERROR)
end

-- Client hello phase. A name without a certificate gets no handshake: any certificate would be that of somebody else.
function M.greet()
  local name = clienthello.get_client_hello_server_name()
  local value = name and find(lower(name))
  if not value then return ngx.exit(ngx.ERROR) end
  if settings.requires_tls_1_3(lower(name)) then clienthello.set_protocols(TLS_1_3_ONLY) end
end

-- The only escape that JSON needs in PEM.
local function unescaped(text)
  return (text:gsub('\\n', '\n'))
end

local function parsed_of(value, host)
  local entry = parsed:get(host)
  -- Strings are interned, so this compares two pointers.
  if entry and entry.value == value then return entry end
  local chain, key = pems(value)
  local certificates, failure = ssl.parse_pem_cert(unescaped(chain))
  if not certificates then return nil, failure end
  local private_key, key_failure = ssl.parse_pem_priv_key(unescaped(key))
  if not private_key then return nil, key_failure end
  entry = { value = value, chain = certificates, key = private_key }
  parsed:set(host, entry)
  return entry
end

-- Certificate phase.
function M.present()
  local value, host = find(lower(ssl.server_name() or ''))
  if not value then return ngx.exit(ngx.ERROR) end
  local entry, failure = parsed_of(value, host)
  if not entry then return refuse(host, failure) end
  ssl.clear_certs()
  local ok, cert_failure = ssl.set_cert(entry.chain)
  if not ok then return refuse(host, cert_failure) end
  local key_ok, key_failure = ssl.set_priv_key(entry.key)
  if not key_ok then return refuse(host, key_failure) end
end

return M
