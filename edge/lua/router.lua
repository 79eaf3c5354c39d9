-- The path of a request: from its admission through the look-up of its host to the choice of the upstream.
local balancer = require 'ngx.balancer'
local cache = require 'cache'
local certificates = require 'certificates'
local connections = require 'connections'
local routes = require 'routes'
local settings = require 'settings'
local strict = require 'strict'
local targets = require 'targets'
local well_known = require 'well_known'

local find, floor = string.find, math.floor
local get_method, http_version, raw_header = ngx.req.get_method, ngx.req.http_version, ngx.req.raw_header

local M = {}

local UPGRADED_SECONDS = 3600
local RETRIES = 2
local SECOND_ATTEMPT_SECONDS = 0.4
-- nginx's own code for an upstream without a live server: a 502 and no further try. Any status returned instead would become a 500.
local NGX_BUSY = -3
local HELD = routes.HELD

local https_port

-- The port of redirects to https.
function M.redirect_to(port)
  https_port = port == 443 and '' or ':' .. port
end

-- Plain http is `refused` where another machine could read what is sent, or `redirected` where its host name has a certificate.
local function leave_plain(var, host, port)
  if port == 'refused' and var.in_the_clear == '1' then return ngx.exit(400) end
  if port ~= 'redirected' or not certificates.covers(host) or var.client_scheme ~= 'http' then return end
  -- Not `ngx.redirect`, whose page would be nginx's own.
  ngx.status = 308
  ngx.header['Location'] = 'https://' .. host .. https_port .. var.request_uri
  ngx.header['Content-Type'] = 'text/plain'
  ngx.print('This address requires https.\n')
  return ngx.exit(308)
end

-- A session of TLS 1.2 for another name of the same certificate must not reach a name that requires 1.3.
local function misdirected(var, host)
  return settings.requires_tls_1_3(host) and var.ssl_protocol == 'TLSv1.2'
end

-- What every request passes first. Returns its host, and whether names of its headers are odd.
local function pass(var, raw, port)
  local host, odd = strict.admit(var, raw)
  well_known.answer(var, host)
  if port == 'tls' then
    if misdirected(var, host) then return ngx.exit(421) end
  elseif port then
    leave_plain(var, host, port)
  end
  return host, odd
end

-- Access phase of a platform surface. `port` is `tls`, or what happens to plain http, or nil where it is served.
function M.admit_surface(port)
  local raw = http_version() ~= 2 and raw_header() or nil
  pass(ngx.var, raw, port)
end

-- Without a route there is no application, but one that is stopped for maintenance says so.
local function without_route(var, host)
  local app, member = settings.closed(host)
  if not app then return 404 end
  var.app_id, var.member, var.refusal = app, member, 'maintenance'
  return 503
end

-- Counts the request for the application that answers it; a member that is full leaves it to the others. Returns the status of a refusal,
-- or nil, the application and the version of its route.
local function enter(var, host, max, room)
  local member, tried = targets.choose(host), nil
  if not member then return without_route(var, host) end
  while member do
    local app, _, port, version, account = routes.find(member)
    if not app then return 404 end -- removed a moment ago
    var.app_id, var.member = app, member
    -- Closed is the chosen one only without a member that is open.
    local status, reason = settings.refuses(member, app, var)
    if status then
      var.refusal = reason
      return status
    end
    if port == HELD then return 503 end
    local full = connections.enter(app, account, max, room)
    if not full then
      var.entered = app
      return nil, app, version
    end
    if full ~= 'full' then
      var.refusal = full -- members of one name are of one account
      return 503
    end
    tried = tried or {}
    tried[member] = true
    member = targets.choose(host, tried)
  end
  var.refusal = 'full'
  return 503
end

-- The request goes to another application than the one it was admitted for; false if that one would not admit it.
local function turn_to(var, member)
  local app, _, _, _, account = routes.find(member)
  if not app or settings.blocks(member, app, var) then return false end
  if app ~= var.entered then connections.move(var.entered, app, account) end
  var.entered, var.app_id, var.member = app, app, member
  var.uncacheable = '1' -- the key names the application that was to answer
  return true
end

-- Turns to a member that was not tried and admits the request, if there is one.
local function turn_on(var, tried)
  local member = targets.choose(var.host, tried)
  while member and not turn_to(var, member) do
    tried[member] = true
    member = targets.choose(var.host, tried)
  end
end

local READS = { GET = true, HEAD = true }

-- A GET or HEAD without a body. By HTTP/2 nginx has awaited its end before the first attempt, so nothing of it is yet to come.
local function bodiless(var, http2)
  return READS[get_method()] and not strict.has_body(var, http2)
end

-- Access phase of an application's host, and of what may have a body that nobody has announced, whose location bounds it. `max` is the limit
-- of its open requests, `room` that of all applications in this worker, `port` as above.
function M.admit(max, room, port)
  local var = ngx.var
  -- In the outermost function: LuaJIT compiles neither, and goes on behind them only here. There is no HTTP/2 without TLS.
  local raw = (port ~= 'tls' or http_version() ~= 2) and raw_header() or nil
  local host, odd = pass(var, raw, port)
  local refusal, app, version = enter(var, host, max, room)
  if refusal then return ngx.exit(refusal) end
  if odd then strict.drop_odd_headers() end
  -- Whether a body comes is asked last: it may take until the end of a stream.
  if READS[get_method()] and cache.asked(var, app, version) and not strict.has_body(var, not raw) then return ngx.exec('@cached') end
end

-- Access phase of the second attempt at a request that got no answer: 502, unless it can be repeated and the container refused the last
-- connection. Only a request without a body is still whole here.
function M.again()
  local var = ngx.var
  -- One figure for each try, as in `251, 0`; `-` where there was no connection at all.
  local refused = find(var.upstream_bytes_sent or '-', '%f[%d-][0-]$')
  if not bodiless(var, http_version() == 2) or not refused then return ngx.exit(502) end
  ngx.sleep(SECOND_ATTEMPT_SECONDS)
  turn_on(var, {})
end

-- Sends browsers what the application has set for https.
local function announce_https(var)
  local member = var.member or ''
  local hsts = member ~= '' and settings.hsts(member, var)
  if hsts and var.client_scheme == 'https' then ngx.header['Strict-Transport-Security'] = hsts end
end

-- Header filter of an application's host: the first byte leaves. Does not disclose which server this is.
function M.answered()
  ngx.header['Server'] = nil
  local var = ngx.var
  announce_https(var)
  -- An update in the background has the variables of the request that it follows.
  if not ngx.is_subrequest then var.edge_ms = floor((ngx.now() - ngx.req.start_time()) * 1000 + 0.5) end
  cache.answered(var)
end

-- Body filter of an application's host by https. By HTTP/2 the part that completes the announced length ends the answer too: nginx would send
-- the end of a stream in a frame, a TLS record and a system call of its own. The length is what nginx announces: an application may have
-- sent several, or chunks. A range leaves out some of what arrives.
function M.passing(http2)
  local var = ngx.var
  if not http2 and var.server_protocol ~= 'HTTP/2.0' or ngx.status == 206 then return end
  local announced = ngx.header['Content-Length']
  if announced and announced ~= '0' and announced == var.upstream_response_length then ngx.arg[2] = true end
end

-- An address as nginx writes it before a port.
local function in_brackets(address)
  return find(address, ':', 1, true) and '[' .. address .. ']' or address
end

-- After a failed try its address rests, and another member answers if there is one. An application without others is tried again. A route
-- that has moved since has an address that did not fail.
local function pass_on(var, ctx)
  local member = var.member
  local _, address, port = routes.find(member)
  local failed = address and find(var.upstream_addr, in_brackets(address) .. ':' .. port, 1, true)
  if failed then targets.rest(address, port) end
  ctx.tried = ctx.tried or {}
  ctx.tried[member] = true
  turn_on(var, ctx.tried)
end

-- Upstream phase. Reads the table on each try, so that a request whose container was just replaced reaches the new one.
function M.balance()
  local var = ngx.var
  -- Not every request has a table of its own: it costs as much as the rest of this phase.
  if balancer.get_last_failure() then pass_on(var, ngx.ctx) else balancer.set_more_tries(RETRIES) end
  local _, address, port, version = routes.find(var.member)
  local keyed = var.cache_version
  if keyed ~= '' and version ~= keyed then var.uncacheable = '1' end -- the key names the version of before
  if not address or port == HELD then return ngx.exit(NGX_BUSY) end
  if var.upgrade_to ~= '' then balancer.set_timeouts(nil, nil, UPGRADED_SECONDS) end
  local ok, failure = balancer.set_current_peer(in_brackets(address), tonumber(port))
  if not ok then
    ngx.log(ngx.ERR, 'no upstream for ', var.host, ': ', failure)
    return ngx.exit(NGX_BUSY)
  end
end

return M
