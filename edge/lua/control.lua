-- The control locations on the unix socket. `/routes`: GET lists the routes, or those of the hosts in `?hosts=a,b`; PUT replaces the
-- table by the body; POST applies one line; `/names`, `/certificates`, `/settings`, `/pages` and `/answers` likewise. `/mark`: GET returns this run of the proxy and the mark up to which its table is complete; PUT sets the mark.
local certificates = require 'certificates'
local names = require 'names'
local routes = require 'routes'
local settings = require 'settings'
local well_known = require 'well_known'

local M = {}

local function with_body(apply)
  ngx.req.read_body()
  local body = ngx.req.get_body_data()
  -- A body that nginx has moved to a file must not count as an empty one, which would empty the table.
  if not body and ngx.req.get_body_file() then return ngx.exit(413) end
  local ok, failure = apply(body or '')
  ngx.status = ok and 204 or 422
  if not ok then ngx.print(failure) end
end

-- GET, PUT and POST of a table.
local function serve(of)
  local method = ngx.req.get_method()
  if method == 'GET' then
    ngx.header['Content-Type'] = 'application/jsonl'
    return ngx.print(of:list(ngx.var.arg_hosts))
  end
  if method == 'PUT' then return with_body(function(text) return of:replace(text) end) end
  if method == 'POST' then return with_body(function(text) return of:change(text) end) end
  return ngx.exit(405)
end

function M.routes()
  return serve(routes.table)
end

function M.names()
  return serve(names.table)
end

function M.certificates()
  return serve(certificates.table)
end

-- A list shows which pages are missing, so their file must not stay behind.
function M.settings()
  settings.pages:catch_up()
  return serve(settings.table)
end

function M.pages()
  return serve(settings.pages)
end

function M.answers()
  return serve(well_known.table)
end

function M.mark()
  local method = ngx.req.get_method()
  if method == 'GET' then return ngx.print(routes.table:standing()) end
  if method == 'PUT' then return with_body(function(text) return routes.table:set_mark(text) end) end
  return ngx.exit(405)
end

return M
