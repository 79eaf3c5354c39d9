import test, { type ExecutionContext } from 'ava'
import { checkUpstream } from '../../../activities/language-model/upstream-check.ts'
import { upstreamTimes } from '../../../policy/ai/upstreams.ts'
import { type ModelScript, ModelServer } from '../../kit/servers/model-server.ts'

async function scene(t: ExecutionContext, own: Record<string, string> = { AI_UPSTREAM_KEY: 'hidden-key' }) {
  const server = await ModelServer.start()
  t.teardown(() => server.stop())
  const [upstream] = server.settings(own).upstreams
  const times = { ...upstreamTimes, firstPieceMs: 100, silenceMs: 100 }
  return {
    server,
    upstream: upstream!,
    check: (otherwise: ModelScript, options: { searches?: boolean; times?: typeof times } = {}) => {
      server.otherwise = otherwise
      return checkUpstream(upstream!, options)
    },
    times,
  }
}

test('an error that the operator must fix is REFUSED, with the setting; a passing one is away', async t => {
  const { check } = await scene(t)
  const secret = 'hidden-key SECRET TEXT'
  for (const [status, state, why] of [
    [400, 'REFUSED', /refuses the request \(400\): check AI_UPSTREAM_MODEL, AI_MAX_TOKENS_FIELD and AI_UPSTREAM_KEY$/],
    [401, 'REFUSED', /refuses the key \(401\): check AI_UPSTREAM_KEY$/],
    [402, 'REFUSED', /payment/],
    [403, 'REFUSED', /refuses the key \(403\)/],
    [404, 'REFUSED', /check AI_UPSTREAM_URL, .* and AI_UPSTREAM_MODEL$/],
    [301, 'REFUSED', /redirects \(301\).*AI_UPSTREAM_URL/],
    [405, 'REFUSED', /\(405\): check AI_UPSTREAM_URL$/],
    [429, 'away', /limits are used up \(429\)$/],
    [500, 'away', /does not work \(500\)$/],
    [503, 'away', /\(503\)$/],
  ] as const) {
    const verdict = await check({ status, body: secret, headers: { location: `http://127.0.0.1/${secret}` } })
    t.like(verdict, { state, status, firstPieceMs: null })
    t.regex(verdict.why!, why)
    t.notRegex(JSON.stringify(verdict), /hidden|SECRET/, String(status))
  }
  const page = await check({ body: secret, headers: { 'content-type': 'text/html' } })
  t.like(page, { state: 'REFUSED', status: 200 })
  t.regex(page.why!, /not with a chat completion: check AI_UPSTREAM_URL/)
})

test('silence, half an answer and no server are no verdict on the settings', async t => {
  const { server, upstream, check, times } = await scene(t)
  t.regex((await check({ silentAfter: 0 }, { times })).why!, /^no piece of an answer within 0\.1 s/)
  const cut = await check({ cutAfter: 2 })
  t.is(cut.state, 'away')
  t.regex(cut.why!, /cut off/)
  await server.stop()
  const away = await checkUpstream(upstream)
  t.like(away, { state: 'away', status: null, firstPieceMs: null })
  t.regex(away.why!, /^no connection \(ECONNREFUSED\): check AI_UPSTREAM_URL/)
})

test('a model that refuses so small an answer gets a second request, and one without text is accepted', async t => {
  const { server, check } = await scene(t)
  server.next({ status: 400 })
  t.like(await check({}), { state: 'accepted', status: 200, why: null })
  t.deepEqual(
    server.requests.map(({ body }) => body.max_tokens),
    [1, 256],
  )
  const empty = await check({ text: '', finish: 'length' })
  t.is(empty.state, 'accepted')
  t.is(typeof empty.firstPieceMs, 'number')
})

test('a server that requires a key is reported differently from one that refuses it', async t => {
  const { check } = await scene(t, {})
  t.is((await check({ status: 401 })).why, 'it requires a key (401): set AI_UPSTREAM_KEY')
})

test('with the web search the request has its function, and a refusal names it', async t => {
  const { server, check } = await scene(t)
  const { why } = await check({ status: 400 }, { searches: true })
  t.is(server.requests[0]!.body.tools[0].function.name, 'web_search')
  t.regex(why!, /whether the model can call functions, which AI_SEARCH_URL needs$/)
})
