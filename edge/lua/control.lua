-- The control locations on the unix socket. `/routes`: GET lists the routes, or those of the hosts in `?hosts=a,b`; PUT replaces the
-- table by the body; POST applies one line. `/mark`: GET returns this run of the proxy and the mark up to which its table is complete; PUT sets the mark.
local routes = require 'routes'

local M = {}

local function list()
  ngx.header['Content-Type'] = 'application/jsonl'
  ngx.print(routes.list(ngx.var.arg_hosts))
end

local function with_body(apply)
  ngx.req.read_body()
  local ok, failure = apply(ngx.req.get_body_data() or '')
  ngx.status = ok and 204 or 422
  if not ok then ngx.print(failure) end
end

function M.routes()
  local method = ngx.req.get_method()
  if method == 'GET' then return list() end
  if method == 'PUT' then return with_body(routes.replace) end
  if method == 'POST' then return with_body(routes.change) end
  return ngx.exit(405)
end

function M.mark()
  local method = ngx.req.get_method()
  if method == 'GET' then return ngx.print(routes.standing()) end
  if method == 'PUT' then return with_body(routes.mark) end
  return ngx.exit(405)
end

return M
