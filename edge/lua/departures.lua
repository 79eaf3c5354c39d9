-- The end of a request, however it ended: what it held is free again, and its line is written.
local access_log = require 'access_log'
local cache = require 'cache'
local connections = require 'connections'
local routes = require 'routes'
local targets = require 'targets'

local M = {}

-- Statuses of what is refused before its application is looked up: by nginx itself, and by what every request passes.
local UNATTRIBUTED = { [308] = true, [400] = true, [405] = true, [413] = true, [421] = true, [429] = true, [431] = true }

-- The application of a request that none has answered, '' without one. Its owner sees what was refused, too.
local function attribute(var)
  local app = var.app_id or ''
  if app ~= '' or not UNATTRIBUTED[ngx.status] then return app end
  local member = targets.choose(var.host or '')
  app = member and routes.find(member) or ''
  if app ~= '' then var.app_id = app end
  return app
end

-- What is set for each request before its first phase is missing where one ended before it, without a page: its client gave up, or took too
-- long to send its headers. What nginx refuses with a page passes those lines on its way there.
local function set_log_defaults(var)
  if var.log_wanted == '' then var.log_wanted, var.cache_state, var.edge_ms = '1', 'dynamic', 'null' end
end

-- Log phase of an application's host, which every request reaches, however it ended. An internal redirect to one of our pages keeps variables.
function M.application()
  local var = ngx.var
  local app = var.entered
  if app and app ~= '' then
    connections.leave(app)
  else
    set_log_defaults(var)
    app = attribute(var)
  end
  cache.leave(var)
  access_log.leave(app)
end

-- Log phase of a platform surface.
function M.surface()
  set_log_defaults(ngx.var)
  access_log.leave('surfaces')
end

return M
