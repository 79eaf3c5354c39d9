-- The control location on the unix socket: GET lists the routes, PUT makes the table equal to the body, POST applies one line.
local routes = require 'routes'

local function list()
  ngx.header['Content-Type'] = 'application/jsonl'
  ngx.print(routes.list())
end

local function with_body(apply)
  ngx.req.read_body()
  local ok, failure = apply(ngx.req.get_body_data() or '')
  ngx.status = ok and 204 or 422
  if not ok then ngx.print(failure) end
end

return function()
  local method = ngx.req.get_method()
  if method == 'GET' then return list() end
  if method == 'PUT' then return with_body(routes.replace) end
  if method == 'POST' then return with_body(routes.change) end
  return ngx.exit(405)
end
