-- What the proxy itself answers below /.well-known/, so that others can verify who controls a host name: `/.well-known/<kind>/<token>`
-- is answered with the token, a full stop, and the proof of its kind. The token is the one in the path, so every proxy answers
-- every token and nothing has to be distributed before a challenge.
local journal = require 'journal'

local match, sub = string.match, string.sub
local FOLDER = '/.well-known/'
local CHALLENGES = FOLDER .. 'acme-challenge'
local PATH = '^/%.well%-known/([a-z-]+)/([%w_-]+)$'
local MAX_TOKEN = 256

local function record(kind, proof)
  return '{"kind":"' .. kind .. '","proof":"' .. proof .. '"}'
end

local function parse(line)
  local kind, proof = match(line, '^{"kind":"([a-z-]+)","proof":"([%w_-]+)"}$')
  if not kind then return nil, nil, 'malformed answer: ' .. line:sub(1, 200) end
  return kind, proof
end

local M = { table = journal.new { name = 'answers', parse = parse, record = record } }
local apps_suffix

-- Below the domain of applications a challenge is never the application's own: the domain is the operator's, and a customer who could prove a name
-- of it to an authority would use up what that grants the whole domain.
function M.keep(apps_domain)
  apps_suffix = '.' .. apps_domain
end

-- The proof with which a path is answered; nil for any other path, and without one.
local function proof_of(kind, token)
  local method = ngx.req.get_method()
  if not kind or #token > MAX_TOKEN or (method ~= 'GET' and method ~= 'HEAD') then return nil end
  return M.table.dict:get(kind)
end

-- Ends the request to a host with its answer if it has one.
function M.answer(var, host)
  local uri = var.uri
  if sub(uri, 1, #FOLDER) ~= FOLDER then return end
  local kind, token = match(uri, PATH)
  local proof = proof_of(kind, token)
  if not proof then
    local kept = sub(uri, 1, #CHALLENGES) == CHALLENGES and sub(host, -#apps_suffix) == apps_suffix
    return kept and ngx.exit(404)
  end
  ngx.header['Content-Type'] = 'text/plain'
  ngx.header['Cache-Control'] = 'no-store'
  ngx.header['X-Content-Type-Options'] = 'nosniff'
  ngx.print(token .. '.' .. proof)
  return ngx.exit(200)
end

return M
