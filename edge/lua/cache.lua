-- Which requests go through nginx's cache, and which answers it may store. A path whose answer was storable is remembered, and its next
-- request goes there: what applications do not declare cacheable is neither buffered nor does it wait for another answer. The version of
-- the route is in the key, so a release or a purge is in effect with the route; what begins before is stored where nobody looks again.
local lower = string.lower

local M = {}

local REMEMBERED_SECONDS = 86400
local FROM_CACHE = { HIT = true, STALE = true, UPDATING = true, REVALIDATED = true }

-- The paths of each part, by its name; nil while the cache is off. As the disk, they are shared by the applications of a part only.
local remembered
local parts, part_bytes, max_file

-- Called when a worker starts: the number of caches, the size of one, and that of the largest answer in it, in bytes.
function M.begin(count, bytes, file_bytes)
  remembered = {}
  for number = 0, count - 1 do remembered['part' .. number] = ngx.shared['cacheable' .. number] end
  parts, part_bytes, max_file = count, bytes, file_bytes
end

-- Access phase of a GET or HEAD: whether the answer to one without a body may come from the cache, and has been storable before.
function M.asked(var, app, version)
  if not remembered or not version then return false end
  if var.http_authorization or var.upgrade_to ~= '' then return false end
  -- Visitors with a cookie often get answers of their own at the same path.
  local path = ngx.md5_bin(app .. ' ' .. var.http_host .. var.request_uri .. (var.http_cookie and ' cookie' or ''))
  local part = 'part' .. ngx.crc32_short(app) % parts
  var.cache_path, var.cache_part = path, part
  if not remembered[part]:get(path) then return false end
  var.cache_version = version
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

-- Header filter of an application's answer.
function M.answered(var)
  local path = var.cache_path
  if not path or path == '' then return end
  local status = var.upstream_cache_status
  if status then
    local state = lower(status)
    ngx.header['X-Cache'] = state
    -- An update in the background has the variables of the request that it follows.
    if not ngx.is_subrequest then var.cache_state = state end
  end
  if FROM_CACHE[status] then return end
  local bytes, paths = storable(var), remembered[var.cache_part]
  if not status then
    if bytes and not has_body(var) then paths:set(path, true, REMEMBERED_SECONDS) end
    return
  end
  if not bytes then paths:delete(path) end
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
