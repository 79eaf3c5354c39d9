import test from 'ava'
import { aiSettings } from '../../../policy/ai/ai-settings.ts'
import { slotsOfProcess } from '../../../policy/ai/upstreams.ts'

const url = 'http://127.0.0.1:8000/v1'

test('without settings there is no upstream', t => {
  t.deepEqual(aiSettings({}), {
    upstreams: [],
    concurrency: 32,
    dailyTokens: null,
    searchUrl: null,
    tokenizeUrl: null,
  })
  t.deepEqual(aiSettings({ AI_UPSTREAM_KEY: 'left-over', AI_UPSTREAM_MODEL: 'm' }).upstreams, [])
})

test('a single value applies to all upstreams; otherwise there is one for each', t => {
  const two = { AI_UPSTREAM_URL: `${url}/, https://api.example.com/v1` }
  const [near, far] = aiSettings({ ...two, AI_UPSTREAM_KEY: 'k1', AI_UPSTREAM_MODEL: 'qwen' }).upstreams
  t.deepEqual(near, { url, key: 'k1', model: 'qwen', maxTokensField: 'max_tokens' })
  t.deepEqual(far, { url: 'https://api.example.com/v1', key: 'k1', model: 'qwen', maxTokensField: 'max_tokens' })
  const each = aiSettings({
    ...two,
    AI_UPSTREAM_KEY: ',k2',
    AI_UPSTREAM_MODEL: 'small, large',
    AI_MAX_TOKENS_FIELD: 'max_tokens,max_completion_tokens',
  }).upstreams
  t.deepEqual(
    each.map(({ key, model, maxTokensField }) => [key, model, maxTokensField]),
    [
      [null, 'small', 'max_tokens'],
      ['k2', 'large', 'max_completion_tokens'],
    ],
    'the first needs no key',
  )
  t.deepEqual(
    aiSettings(two).upstreams.map(({ key, model }) => [key, model]),
    [
      [null, 'cubic'],
      [null, 'cubic'],
    ],
  )
})

test('wrong settings are named, and neither keys nor addresses are repeated', t => {
  const wrong: [string, Record<string, string>][] = [
    ['AI_UPSTREAM_URL', { AI_UPSTREAM_URL: 'secret' }],
    ['AI_UPSTREAM_URL', { AI_UPSTREAM_URL: 'ftp://secret/v1' }],
    ['AI_UPSTREAM_URL', { AI_UPSTREAM_URL: 'https://user:secret@api.example.com/v1' }],
    ['AI_UPSTREAM_URL', { AI_UPSTREAM_URL: 'https://api.example.com/v1?key=secret' }],
    ['AI_UPSTREAM_URL', { AI_UPSTREAM_URL: `${url},https://api.example.com/v1#secret` }],
    ['AI_UPSTREAM_KEY', { AI_UPSTREAM_URL: url, AI_UPSTREAM_KEY: 'secret,secret' }],
    ['AI_UPSTREAM_KEY', { AI_UPSTREAM_URL: url, AI_UPSTREAM_KEY: 'secret key' }],
    ['AI_UPSTREAM_KEY', { AI_UPSTREAM_URL: url, AI_UPSTREAM_KEY: 'secrét' }],
    ['AI_UPSTREAM_MODEL', { AI_UPSTREAM_URL: `${url},${url}`, AI_UPSTREAM_MODEL: 'a,' }],
    ['AI_UPSTREAM_MODEL', { AI_UPSTREAM_URL: url, AI_UPSTREAM_MODEL: 'a,b,c' }],
    ['AI_MAX_TOKENS_FIELD', { AI_MAX_TOKENS_FIELD: 'n_predict' }],
    ['AI_CONCURRENCY', { AI_CONCURRENCY: '0' }],
    ['AI_CONCURRENCY', { AI_CONCURRENCY: '1.5' }],
    ['AI_DAILY_TOKENS', { AI_DAILY_TOKENS: '0' }],
    ['AI_SEARCH_URL', { AI_SEARCH_URL: 'http://search.example.com' }],
    ['AI_TOKENIZE_URL', { AI_TOKENIZE_URL: 'tokenize' }],
  ]
  for (const [name, env] of wrong) {
    const { message } = t.throws(() => aiSettings(env), undefined, JSON.stringify(env))
    t.true(message.startsWith(`The setting ${name} `), message)
    t.false(message.includes('secret'), message)
  }
})

test('conversations and keys take plain http only on this machine and in private networks', t => {
  const allowed = (host: string) => {
    try {
      return aiSettings({ AI_UPSTREAM_URL: `http://${host}/v1` }).upstreams.length === 1
    } catch {
      return false
    }
  }
  for (const host of [
    ...[
      '127.0.0.1',
      '127.8.0.1:8000',
      '[::1]',
      '0.0.0.0:8000',
      'localhost',
      'model.localhost',
      '10.1.2.3',
      '172.16.0.1',
    ],
    ...['192.168.0.9:1', '100.64.0.1', '[fd00::1]', '[fe80::1]', '[::ffff:10.0.0.1]', '0x7f.1', 'vllm', 'VLLM:8000'],
    ...['gpu.internal', 'gpu.local', 'vllm.default.svc.cluster.local', 'gpu.internal.'],
  ])
    t.true(allowed(host), host)
  for (const host of [
    ...[
      'api.example.com',
      'example.com.',
      '8.8.8.8',
      '172.32.0.1',
      '[2606:4700::1]',
      '[::ffff:8.8.8.8]',
      '[64:ff9b::808:808]',
    ],
    ...[
      '[2002:a00:1::1]',
      '192.0.2.1',
      '134744072',
      'internal.example.com',
      'local.example',
      'xlocal.com',
      '169.254.1.1.example',
    ],
  ])
    t.false(allowed(host), host)
  t.notThrows(() => aiSettings({ AI_UPSTREAM_URL: 'https://api.example.com/v1', AI_SEARCH_URL: 'http://searxng:8080' }))
})

test('each process has its share of the slots, and at least one', t => {
  t.deepEqual(
    [1, 2, 3, 32, 40].map(processes => slotsOfProcess(32, processes)),
    [32, 16, 10, 1, 1],
  )
})
