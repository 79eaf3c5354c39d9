-- Counts the open requests of each application across all nginx workers: one with slow visitors must not use up all connections.
-- Each worker counts its own and publishes the counts; those of a worker that died are removed when another gets its number.
local shown = ngx.shared.connections
-- Of this worker: the open requests of applications, of accounts, and of all. Those of an application count for the account that its route
-- named last: it may have named none before.
local own, of_accounts, account_of = {}, {}, {}
local total = 0

local M = {}

local function key(app, worker)
  return worker .. ' ' .. app
end

local function show(app, count)
  own[app] = count > 0 and count or nil
  -- One worker knows them all. During a reload the next worker has the same number.
  if ngx.worker.count() == 1 or ngx.worker.exiting() then return end
  if count > 0 then shown:set(key(app, ngx.worker.id()), count) else shown:delete(key(app, ngx.worker.id())) end
end

local function open(app)
  local count = own[app] or 0
  local me = ngx.worker.id()
  for worker = 0, ngx.worker.count() - 1 do
    if worker ~= me then count = count + (shown:get(key(app, worker)) or 0) end
  end
  return count
end

local function add(account, requests)
  local count = (of_accounts[account] or 0) + requests
  of_accounts[account] = count > 0 and count or nil
end

-- Adds `one`, which is 1 or -1, to the open requests of an application.
local function count(app, account, one)
  local open_now, before = own[app] or 0, account_of[app]
  if before and before ~= account then
    add(before, -open_now)
    add(account, open_now)
  end
  add(account, one)
  account_of[app] = open_now + one > 0 and account or nil
  show(app, open_now + one)
end

-- Admits a request, which must call `leave` later, and returns nil; or returns the limit that refused it: 'full' (application), 'share'
-- (account) or 'room' (all applications, which must leave connections for the platform's own surfaces). An account gets another slot only
-- while more are free than it holds, so one account can use half, two can use two thirds, and no account with an open request takes the last.
function M.enter(app, account, max, room)
  if open(app) >= max then return 'full' end
  local mine = of_accounts[account] or 0
  if total + mine >= room then return total < room and 'share' or 'room' end
  total = total + 1
  count(app, account, 1)
end

-- The open requests of an application in this worker.
function M.count(app)
  return own[app] or 0
end

-- Counts a request that was admitted for one application as one of another, which answers in its place. The limits of that one are not
-- compared again: it gets what a member that failed has left.
function M.move(app, other, account)
  count(app, account_of[app], -1)
  count(other, account, 1)
end

function M.leave(app)
  total = total - 1
  count(app, account_of[app], -1)
end

-- Called when a worker starts.
function M.begin()
  math.randomseed(ngx.now() * 1000 + ngx.worker.pid()) -- workers would choose the same members
  local mine = '^' .. ngx.worker.id() .. ' '
  for _, name in ipairs(shown:get_keys(0)) do
    if name:find(mine) then shown:delete(name) end
  end
end

return M
