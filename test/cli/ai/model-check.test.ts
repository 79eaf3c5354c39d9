import test, { type ExecutionContext } from 'ava'
import { aiCommand } from '../../../cli/ai/ai.ts'
import { addressTable } from '../../../cli/ai/model-check.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { ModelServer } from '../../kit/servers/model-server.ts'
import { startOrigin } from '../../kit/servers/origin.ts'

const away = { DATABASE_URL: 'postgres://berth@127.0.0.1:9/berth' }

/** `berth ai check` with these settings, as in the container of the api. */
async function check(t: ExecutionContext, own: Record<string, string>, ...args: string[]) {
  const settings = { ...away, BERTH_DATA: ownFolder(t), AI_UPSTREAM_KEY: '', ...own }
  return operatorHere([aiCommand], settings, 'ai', 'check', ...args)
}

async function models(t: ExecutionContext, count: number): Promise<ModelServer[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => ModelServer.start()))
  t.teardown(() => Promise.all(servers.map(server => server.stop())))
  return servers
}

test.serial(
  'each language model gets a request for one token, with its key and model, and is reported with its time',
  async t => {
    const servers = await models(t, 2)
    const own = {
      AI_UPSTREAM_URL: servers.map(({ url }) => url).join(','),
      AI_UPSTREAM_KEY: ',hidden-key',
      AI_UPSTREAM_MODEL: 'one,two',
    }
    const { code, stdout } = await check(t, own)
    t.is(code, 0)
    t.regex(stdout, new RegExp(`^upstream 1 +${servers[0]!.url} +one +accepted, first piece after \\d+ ms$`, 'm'))
    t.regex(stdout, new RegExp(`^upstream 2 +${servers[1]!.url} +two +accepted, first piece after \\d+ ms$`, 'm'))
    for (const [n, { requests }] of servers.entries()) {
      t.is(requests.length, 1)
      t.is(requests[0]!.body.max_tokens, 1)
      t.is(requests[0]!.body.tools, undefined)
      t.is(requests[0]!.headers.authorization, n === 0 ? undefined : 'Bearer hidden-key')
    }
    const [, second] = JSON.parse((await check(t, own, '--json')).stdout)
    t.like(second, { part: 'upstream', number: 2, model: 'two', state: 'accepted', status: 200, why: null })
    t.is(typeof second.first_piece_ms, 'number')
  },
)

test.serial('an upstream that refuses fails the command; no output shows a key or a text of an upstream', async t => {
  const [good, bad] = await models(t, 2)
  bad!.otherwise = { status: 401, body: 'Incorrect key: hidden-key. SECRET TEXT' }
  const own = { AI_UPSTREAM_URL: `${good!.url},${bad!.url}`, AI_UPSTREAM_KEY: 'hidden-key' }
  for (const args of [[], ['--json']]) {
    const { code, stdout, stderr } = await check(t, own, ...args)
    t.is(code, 1)
    t.is(stderr, 'Not every address accepts the requests of the AI gateway.')
    t.regex(stdout, /it refuses the key \(401\): check AI_UPSTREAM_KEY/)
    t.notRegex(stdout + stderr, /hidden|SECRET/)
  }
})

test.serial('with a web search requests have its function; search and tokenizer are checked too', async t => {
  const [model] = await models(t, 1)
  const asked: string[] = []
  const answers: Record<string, string> = { '/tokenize': '{"count":1}', '/search': '{"results":[]}' }
  const side = await startOrigin((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost')
    asked.push(pathname)
    request.resume().on('end', () => response.writeHead(answers[pathname] ? 200 : 403).end(answers[pathname]))
  })
  t.teardown(side.stop)
  const base = `http://127.0.0.1:${side.port}`
  const own = { AI_UPSTREAM_URL: model!.url, AI_TOKENIZE_URL: `${base}/tokenize`, AI_SEARCH_URL: base }
  const { code, stdout } = await check(t, own)
  t.is(code, 0, stdout)
  t.is(model!.requests[0]!.body.tools[0].function.name, 'web_search')
  t.deepEqual(asked.sort(), ['/search', '/tokenize'])
  t.regex(stdout, /^tokenizer +http.* +accepted$/m)
  t.regex(stdout, /^web search +http.* +accepted$/m)
  for (const path of Object.keys(answers)) delete answers[path]
  const without = await check(t, own)
  t.is(without.code, 1)
  t.regex(without.stdout, /^tokenizer .*away: no number of tokens .* check AI_TOKENIZE_URL/m)
  t.regex(without.stdout, /^web search .*away: The web search answered 403\. Check AI_SEARCH_URL/m)
})

test.serial(
  'without a language model the command says how to set one up, and in another container where to run it',
  async t => {
    const none = await check(t, {})
    t.is(none.code, 1)
    t.regex(none.stderr, /^No language model is configured.*Set AI_UPSTREAM_URL.*docs\/installation\.md, "AI gateway"/s)
    t.is((await check(t, {}, '--json')).stdout, '[]')
    const settings = { ...away, BERTH_DATA: ownFolder(t) }
    const { stderr } = await operatorHere([aiCommand], settings, 'ai', 'check')
    t.is(stderr, 'The settings of the AI gateway are unknown here: run this command in the container api.')
  },
)

test('an address without a time is shown without one', t => {
  const line = { part: 'upstream', number: 1, address: 'https://a', model: 'm', first_piece_ms: null } as const
  t.is(
    addressTable([{ ...line, state: 'away', status: 503, why: 'it does not work (503)' }]),
    'upstream 1  https://a  m  away: it does not work (503)',
  )
})
