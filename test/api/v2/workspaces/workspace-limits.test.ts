import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

/** Contract 9.3: so many, in so many seconds. A refused body counts. */
const rows = [
  ['POST', '', 1, 10],
  ['GET', `/${'b'.repeat(40)}`, 30, 60],
  ['DELETE', '', 1, 10],
  ['DELETE', '/leave', 1, 5],
  ['GET', '/members/code', 1, 300],
  ['POST', '/members', 1, 5],
  ['PATCH', '/members', 3, 15],
  ['DELETE', '/members', 5, 30],
  ['POST', '/applications', 10, 30],
  ['DELETE', '/applications', 10, 30],
] as const

for (const [method, path, allow, seconds] of rows)
  test(`${method} ${path || '/'} ${allow} in ${seconds} s`, async t => {
    const ana = await api().makeUser()
    const ask = () => api().as(ana).request(method, `/v2/workspaces${path}`)
    for (let n = 1; n <= allow; n++) t.not((await ask()).status, 429, `${n}`)
    const refused = await ask()
    t.deepEqual([refused.status, refused.body.code], [429, 'KEEP_CALM'])
    const wait = Number(refused.headers.get('retry-after'))
    t.true(wait >= 1 && wait <= seconds, `${wait}`)
  })
