import test from 'ava'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

const ids = (user: TestUser, count: number) => Array.from({ length: count }, (_, n) => `pub/${user.id}/${n}.txt`)

/** Stops the windows of an account where they are: a slow machine must not come to the next one. */
const stopWindows = ({ id }: TestUser) =>
  api()
    .db('rate_limits')
    .whereLike('key', `%/${id}/%`)
    .update({ window_ends_at: new Date(Date.now() + 3_600_000) })

const cases: [method: string, most: number, requests: number[], more: object][] = [
  ['PATCH', 50, [49, 1], { private: true }],
  ['DELETE', 1000, Array(10).fill(100), {}],
]

for (const [method, most, requests, more] of cases)
  test(`${method} counts every object that it names: ${most} within 10 seconds`, async t => {
    const ana = await api().makeUser({ plan: 'enterprise-1024' })
    const name = (count: number) =>
      api()
        .blobAs(ana)
        .request(method, '/v1/objects', { body: JSON.stringify({ objects: ids(ana, count), ...more }) })
    for (const count of requests) {
      t.is((await name(count)).status, 200)
      await stopWindows(ana)
    }
    const over = await name(1)
    t.like(over, { status: 429, body: { code: 'RATE_LIMITED' } })
    t.truthy(over.headers.get('retry-after'))
  })
