import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { uploadArchive } from '../../../../cli/client/client.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { ownFolder } from '../../../kit/folders.ts'
import { appZip, zipOf } from '../../../kit/zips.ts'

const api = testApi()

const newest = (appId: string) => api().db('deployments').where({ app_id: appId }).orderBy('release', 'desc').first()

test('a commit or creation with no_cache is stored as one that installs anew, and no other', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const commit = (query: string, headers = {}) => {
    const body = new FormData()
    body.append('file', new Blob([zipOf({ 'index.js': '1' })]), 'files.zip')
    return api().as(ana).post(`/v2/apps/${app.id}/commit${query}`, body, headers)
  }
  const cases = { '?no_cache=true': true, '?no_cache=false': false, '': false, '?path=src&no_cache=true': true }
  for (const [query, isClean] of Object.entries(cases)) {
    t.is((await commit(query)).status, 200, query)
    t.is((await newest(app.id)).no_cache, isClean, query)
  }
  for (const value of ['yes', '1', '', 'TRUE', 'true&no_cache=true'])
    t.is((await commit(`?no_cache=${value}`)).body.code, 'INVALID_PARAMETERS', value)

  const key = { 'idempotency-key': 'one' }
  t.is((await commit('', key)).status, 200)
  t.is((await commit('?no_cache=true', key)).body.code, 'IDEMPOTENCY_KEY_REUSED')
})

test('berth deploy --no-cache creates an application that installs anew', async t => {
  const path = join(ownFolder(t), 'app.zip')
  writeFileSync(path, appZip({}))
  for (const noCache of [true, false]) {
    const ben = await api().makeUser()
    const target = { baseUrl: api().url, apiKey: ben.key, edgeUrl: null }
    const { app } = await uploadArchive(target, path, { noCache })
    t.is((await newest(app.id)).no_cache, noCache)
  }
})
