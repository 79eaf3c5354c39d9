-- What an application has set for the requests to it, by the host name of its route: so it holds while the application is stopped and has
-- no route. Pages are in a table of their own, because every request reads the rules, and few need a page.
local bit = require 'bit'
local journal = require 'journal'
local names = require 'names'
local routes = require 'routes'

local band, byte, char, sub, floor = bit.band, string.byte, string.char, string.sub, math.floor
local counts = ngx.shared.address_counts

local HEAD = '^{"host":"([a-z0-9.-]+)","appId":"([%w_-]+)","version":"([%w._-]+)","minTls":"(1%.[23])","hsts":"([%w=; -]*)"'
local LINE = HEAD .. ',"perMinute":(%d+),"maintenance":(%a+),"blocked":%[([%x/",]*)%],"pages":%[([a-z",]*)%]}$'
local REMOVED = '^{"host":"([a-z0-9.-]+)","removed":true}$'
local PAGE = '^{"page":"(%a+ [a-z0-9.-]+)","version":"([%w._-]+)","text":"([%w+/=]+)"}$'
local PAGE_REMOVED = '^{"page":"(%a+ [a-z0-9.-]+)","removed":true}$'
local COUNTED_SECONDS = 60
local BYTES_OF = { [8] = 4, [32] = 16 } -- by the number of hexadecimal digits
local V4_MAPPED = ('\0'):rep(10) .. '\255\255'

-- The first bits of an address; the others are cut off, and zero in its last byte.
local function masked(address, bits)
  local whole, rest = floor(bits / 8), bits % 8
  local bytes = sub(address, 1, whole)
  if rest == 0 then return bytes end
  return bytes .. char(band(byte(address, whole + 1), 256 - 2 ^ (8 - rest)))
end

-- `"0a000000/8","…/32"` as sets of masked addresses, by the bytes of an address and its bits; nil where one of them is no network.
local function networks(text)
  local sets = { [4] = {}, [16] = {} }
  for part in (text == '' and '' or text .. ','):gmatch('([^,]*),') do
    local hex, digits = part:match('^"(%x+)/(%d+)"$')
    local bytes, bits = BYTES_OF[hex and #hex], tonumber(digits)
    if not bytes or bits > bytes * 8 then return nil end
    local address = hex:gsub('%x%x', function(pair) return char(tonumber(pair, 16)) end)
    local set = sets[bytes][bits] or {}
    sets[bytes][bits] = set
    set[masked(address, bits)] = true
  end
  return sets
end

-- The allowed characters need no JSON escapes, so patterns are a whole parser here. The value of a record is its line.
local function parse(line)
  local removed = line:match(REMOVED)
  if removed then return removed, nil end
  local host, _, _, _, _, _, maintenance, blocked = line:match(LINE)
  if not host or maintenance ~= 'true' and maintenance ~= 'false' or not networks(blocked) then
    return nil, nil, 'malformed settings: ' .. line:sub(1, 200)
  end
  return host, line
end

local function parse_page(line)
  local removed = line:match(PAGE_REMOVED)
  if removed then return removed, nil end
  local page, version, text = line:match(PAGE)
  if not page then return nil, nil, 'malformed page: ' .. line:sub(1, 200) end
  return page, version .. ' ' .. text
end

local function record(_, line)
  return line
end

local function page_record(page, value)
  return '{"page":"' .. page .. '","version":"' .. value:gsub(' ', '","text":"', 1) .. '"}'
end

local pages = journal.new { name = 'pages', parse = parse_page, record = page_record }

-- The text of a page of this version, or nil.
local function page_of(kind, host, version)
  local value = pages.dict:get(kind .. ' ' .. host)
  local of, text = (value or ''):match('^(%S+) (.+)$')
  return of == version and text or nil
end

-- The version of rules whose pages are missing is another one, so they are set again soon; so is that of a file that may be behind.
local OUTDATED = 'outdated'

local function shown(host, line)
  local _, _, version, _, _, _, _, _, kinds = line:match(LINE)
  for kind in kinds:gmatch('%a+') do
    if not page_of(kind, host, version) then version = OUTDATED end
  end
  return '{"host":"' .. host .. '","version":"' .. version .. '"}'
end

local function outdated(line)
  return (line:gsub('"version":"[%w._-]+"', '"version":"' .. OUTDATED .. '"', 1))
end

local function take_apart(line)
  local _, app, version, min_tls, hsts, per_minute, maintenance, blocked = line:match(LINE)
  return {
    app = app,
    version = version,
    only_tls_1_3 = min_tls == '1.3',
    hsts = hsts ~= '' and hsts or nil,
    per_minute = tonumber(per_minute),
    maintenance = maintenance == 'true',
    blocked = blocked ~= '' and networks(blocked) or nil,
  }
end

local M = {
  table = journal.new {
    name = 'settings', parse = parse, record = record, take_apart = take_apart, shown = shown, stale = outdated,
  },
  pages = pages,
}

-- The rules of a route's host name, if they are those of this application; nil without any.
local function rules_of(member, app)
  local rules = M.table:find(member)
  return rules and (not app or rules.app == app) and rules or nil
end

-- The first rules of a host name's applications that `matches`, and the member that they are of; nil without.
local function find(host, matches)
  local own = rules_of(host, (routes.find(host)))
  if own then return matches(own) and own or nil, host end
  local name = names.find(host)
  if not name then return nil end
  for _, member in ipairs(name.members) do
    local rules = rules_of(member, name.apps[member])
    if rules and matches(rules) then return rules, member end
  end
end

local function asks_tls_1_3(rules)
  return rules.only_tls_1_3
end

-- Whether handshakes for a host name are of TLS 1.3 only: one of its applications asks for it.
function M.requires_tls_1_3(host)
  return find(host, asks_tls_1_3) ~= nil
end

local function unmapped(address)
  return #address == 16 and sub(address, 1, 12) == V4_MAPPED and sub(address, 13) or address
end

local function blocks(rules, var)
  local address = unmapped(var.binary_remote_addr)
  for bits, set in pairs(rules.blocked[#address]) do
    if set[masked(address, bits)] then return true end
  end
  return false
end

-- Counts a request of the client's network; true when it is beyond what the application permits in this minute.
local function exceeds(rules, var)
  local minute = floor(ngx.time() / COUNTED_SECONDS)
  local count = counts:incr(rules.app .. ' ' .. minute .. ' ' .. var.client_network, 1, 0, COUNTED_SECONDS)
  return count ~= nil and count > rules.per_minute
end

-- Whether an application has blocked the client's address.
function M.blocks(member, app, var)
  local rules = rules_of(member, app)
  return rules ~= nil and rules.blocked ~= nil and blocks(rules, var)
end

function M.is_closed(member, app)
  local rules = rules_of(member, app)
  return rules ~= nil and rules.maintenance
end

-- The status with which an application itself has this request refused, and why; nil where it has not.
function M.refuses(member, app, var)
  local rules = rules_of(member, app)
  if not rules then return nil end
  if rules.maintenance then return 503, 'maintenance' end
  if rules.blocked and blocks(rules, var) then return 403, 'blocked' end
  if rules.per_minute > 0 and exceeds(rules, var) then return 429, 'rate' end
end

local function is_closed(rules)
  return rules.maintenance
end

-- The application without a route that has closed this host name for maintenance, and its member; nil where none has.
function M.closed(host)
  local rules, member = find(host, is_closed)
  if rules then return rules.app, member end
end

-- Seconds until requests are counted anew.
function M.counted_for()
  return COUNTED_SECONDS - ngx.time() % COUNTED_SECONDS
end

-- The value of Strict-Transport-Security for the application in `var`; nil = not sent.
function M.hsts(member, var)
  local rules = rules_of(member)
  return rules and rules.hsts and rules.app == var.app_id and rules.hsts or nil
end

-- The application's own page, `error` or `maintenance`; nil without.
function M.page(kind, member, app)
  local rules = rules_of(member, app)
  local text = rules and page_of(kind, member, rules.version)
  return text and ngx.decode_base64(text)
end

return M
