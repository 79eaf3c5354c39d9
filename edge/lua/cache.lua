-- Which requests go through nginx's cache, and which answers it may store. A path whose answer was storable is remembered, and its next
-- request goes there: what applications do not declare cacheable is neither buffered nor does it wait for another answer. The version of
-- the route is in the key, so a release or a purge is in effect with the route; what begins before is stored where nobody looks again.
local changes = require 'changes'
local routes = require 'routes'

local lower = string.lower

local M = {}

local REMEMBERED_SECONDS = 86400
local HELD_BY_WORKER = 10000
local FROM_CACHE = { HIT = true, STALE = true, UPDATING = true, REVALIDATED = true }

-- The paths of each part, by its name; nil while the cache is off. As the disk, they are shared by the applications of a part only. So are
-- the marks of those that have any.
local remembered, marks
local parts, part_bytes, max_file

-- Called when a worker starts: the number of caches, the size of one, and that of the largest answer in it, in bytes.
function M.begin(count, bytes, file_bytes)
  remembered, marks = {}, {}
  for number = 0, count - 1 do
    local part = 'part' .. number
    remembered[part], marks[part] = ngx.shared['cacheable' .. number], ngx.shared['caching' .. number]
  end
  parts, part_bytes, max_file = count, bytes, file_bytes
end

local function part_of(app)
  return 'part' .. ngx.crc32_short(app) % parts
end

local function path_of(var, app)
  -- Visitors with a cookie often get answers of their own at the same path.
  return ngx.md5_bin(app .. ' ' .. var.http_host .. var.request_uri .. (var.http_cookie and ' cookie' or ''))
end

-- Most applications declare nothing cacheable, so each worker holds which ones have a path that is remembered and which have none: to look
-- for the path of a request takes longer than all the rest of its admission. An application that has none may get one, and the number then
-- says so. One that has some is looked at as before, whatever becomes of its mark.
local number, seen = changes.number(), -1
local having, having_count, lacking, lacking_count = {}, 0, {}, 0

local function hold(app)
  if having[app] then return end
  if having_count >= HELD_BY_WORKER then having, having_count = {}, 0 end
  having[app], having_count = true, having_count + 1
end

local function has_paths(app)
  if having[app] then return true end
  local now = number[0]
  if now ~= seen or lacking_count >= HELD_BY_WORKER then
    seen, lacking, lacking_count = now, {}, 0
  end
  if lacking[app] then return false end
  if marks[part_of(app)]:get(app) then
    hold(app)
    return true
  end
  lacking[app], lacking_count = true, lacking_count + 1
  return false
end

local function remember(app, path)
  local part = part_of(app)
  remembered[part]:set(path, true, REMEMBERED_SECONDS)
  hold(app)
  if marks[part]:expire(app, REMEMBERED_SECONDS) then return end
  marks[part]:set(app, true, REMEMBERED_SECONDS)
  changes.note(number)
end

-- Whether a GET or HEAD without a body may be answered from the cache.
local function cacheable(var)
  return not var.http_authorization and var.upgrade_to == ''
end

-- Access phase of a GET or HEAD: whether the answer to one without a body may come from the cache, and has been storable before.
function M.asked(var, app, version)
  if not remembered or not version or not has_paths(app) or not cacheable(var) then return false end
  local path, part = path_of(var, app), part_of(app)
  if not remembered[part]:get(path) then return false end
  var.cache_path, var.cache_part, var.cache_version = path, part, version
  return true
end

local function is_fresh(control)
  if not control then return false end
  if type(control) == 'table' then control = table.concat(control, ',') end
  control = control:lower()
  if control:find('private', 1, true) or control:find('no%-[sc]') then return false end
  local seconds = control:match('s%-maxage%s*=%s*"?(%d+)') or control:match('max%-age%s*=%s*"?(%d+)')
  return seconds ~= nil and tonumber(seconds) > 0
end

-- The bytes of an answer that may be stored, else nil. Without its length in advance its size would have no bound.
local function storable(var)
  if not var.upstream_http_cache_control then return nil end
  local headers = ngx.resp.get_headers(0)
  if not is_fresh(headers['cache-control']) or headers['set-cookie'] then return nil end
  local vary, content_type = headers['vary'], headers['content-type']
  if type(vary) == 'table' or vary and vary:find('*', 1, true) then return nil end
  if type(content_type) == 'string' and content_type:lower():find('^text/event%-stream') then return nil end
  if ngx.status == 206 or ngx.status == 304 then return nil end
  local bytes = ngx.req.get_method() == 'HEAD' and 0 or tonumber(var.upstream_http_content_length or '')
  if not bytes or bytes > max_file then return nil end
  return bytes
end

-- Bytes that this worker is storing, by application and of all. They are on the disk before nginx can count them as its cache.
local filling, total = {}, 0

-- Whether the disk has room for another answer of the application while those are under way. One at a time always has.
local function fill(var, bytes)
  local app, workers = var.entered, ngx.worker.count()
  local own = filling[app] or 0
  if var.filling ~= '' or own > 0 and own + bytes > part_bytes / workers then return false end
  if total > 0 and total + bytes > parts * part_bytes / workers then return false end
  if bytes > 0 then
    filling[app], total = own + bytes, total + bytes
    var.filling = app .. ' ' .. bytes
  end
  return true
end

-- Whether the request had a body. What came with it has been read, or its length has been announced.
local function has_body(var)
  return var.http_transfer_encoding ~= nil or (tonumber(var.content_length) or 0) > 0
end

local READS = { GET = true, HEAD = true }

-- An answer that did not come by the cache: its path is remembered if it could have been stored.
local function answered_by_application(var)
  local bytes, app = storable(var), var.entered
  if not bytes or not app or app == '' or not READS[ngx.req.get_method()] or has_body(var) then return end
  local _, _, _, version = routes.find(var.member)
  if version and cacheable(var) then remember(app, path_of(var, app)) end
end

-- Header filter of an application's answer.
function M.answered(var)
  if not remembered then return end
  local status = var.upstream_cache_status
  if not status then return answered_by_application(var) end
  local state = lower(status)
  ngx.header['X-Cache'] = state
  -- An update in the background has the variables of the request that it follows.
  if not ngx.is_subrequest then var.cache_state = state end
  if FROM_CACHE[status] then return end
  local bytes = storable(var)
  if not bytes then remembered[var.cache_part]:delete(var.cache_path) end
  if not bytes or not fill(var, bytes) then var.uncacheable = '1' end
end

-- Log phase.
function M.leave(var)
  if total == 0 then return end
  local mark = var.filling or ''
  if mark == '' then return end
  local app, bytes = mark:match('^(%S+) (%d+)$')
  local left = (filling[app] or 0) - bytes
  filling[app] = left > 0 and left or nil
  total = math.max(0, total - bytes)
end

return M
