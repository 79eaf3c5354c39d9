import { createHash, createHmac, randomUUID } from 'node:crypto'
import test from 'ava'
import { readDelivery } from '../../../../policy/git/webhooks/deliveries.ts'
import { isSigned } from '../../../../policy/git/webhooks/signatures.ts'
import { noCommit, providers, pushEvent } from '../../../kit/git/git-events.ts'

const commit = '7638417db6d59f3c431d3e1f261cc637155684cd'
const cloneUrl = 'https://git.example.org/ana/shop.git'
const secret = 'correct horse battery'
const now = new Date('2026-03-01T12:00:00Z')

const event = (provider: (typeof providers)[number], more: Partial<Parameters<typeof pushEvent>[1]> = {}) =>
  pushEvent(provider, { cloneUrl, ref: 'refs/heads/main', before: 'a'.repeat(40), after: commit, ...more })

interface Sent {
  headers: Record<string, string>
  body: string | Buffer
}

const read = (sent: Sent, options: { secret?: string; wantedBranch?: string; now?: Date } = {}) => {
  const { headers } = sent
  const body = Buffer.from(sent.body as string)
  const signed = options.secret === undefined || isSigned(options.secret, headers, body, options.now ?? now)
  return readDelivery({ headers, body, isSigned: signed, wantedBranch: options.wantedBranch })
}

const verdict = (...args: Parameters<typeof read>) => {
  const found = read(...args).verdict
  return found.kind === 'push' ? 'push' : `${found.kind} ${found.status}`
}

for (const provider of providers) {
  test(`${provider}: a push names branch, commit, address and delivery`, t => {
    const deliveryId = randomUUID()
    const found = read(event(provider, { secret, deliveryId, ref: 'refs/heads/feature/Ünï-1' }), { secret })
    t.deepEqual(found, {
      provider,
      event: { gitlab: 'Push Hook', bitbucket: 'repo:push' }[provider as string] ?? 'push',
      deliveryId,
      branch: 'feature/Ünï-1',
      commit,
      verdict: { kind: 'push', branch: 'feature/Ünï-1', commit, cloneUrl },
    })
  })

  test(`${provider}: tags, deletions and other branches deploy nothing`, t => {
    t.is(verdict(event(provider, { ref: 'refs/tags/v1' })), 'ignored 202')
    t.is(verdict(event(provider, { after: noCommit })), 'ignored 202')
    t.is(verdict(event(provider, { ref: 'refs/tags/v1', after: noCommit })), 'ignored 202')
    t.is(verdict(event(provider), { wantedBranch: 'production' }), 'skipped 202')
    t.is(verdict(event(provider, { ref: 'refs/heads/Main' }), { wantedBranch: 'MAIN' }), 'push')
  })

  test(`${provider}: with a secret, only the signature of these bytes passes`, t => {
    const good = event(provider, { secret })
    t.is(verdict(good, { secret }), 'push')
    t.is(verdict(event(provider), { secret }), 'refused 401', 'missing')
    t.is(verdict(event(provider, { secret: 'wrong wrong' }), { secret }), 'refused 401', 'another secret')
    // GitLab's plain token says nothing about the bytes.
    if (provider !== 'gitlab')
      t.is(verdict({ ...good, body: `${good.body} ` }, { secret }), 'refused 401', 'other bytes')
    t.is(verdict(good), 'push', 'no secret: no signature is looked at')
  })
}

const hmac = (key: string | Buffer, body: string, form: 'hex' | 'base64' = 'hex') =>
  createHmac('sha256', key).update(body).digest(form)

test('every SHA-256 signature that is present must match; SHA-1 proves nothing', t => {
  const github = event('github', { secret })
  const also = (headers: Record<string, string>) =>
    verdict({ ...github, headers: { ...github.headers, ...headers } }, { secret })
  t.is(also({ 'x-hub-signature': `sha1=${'0'.repeat(40)}` }), 'push')
  t.is(also({ 'x-hub-signature': `sha256=${'0'.repeat(64)}` }), 'refused 401')
  t.is(also({ 'x-gogs-signature': '0'.repeat(64) }), 'refused 401')
  t.is(also({ 'x-gitea-signature': hmac(secret, github.body) }), 'push')
  t.is(also({ 'x-gitea-signature': hmac(secret, github.body).toUpperCase() }), 'push')
  t.is(also({ 'x-gitlab-token': 'wrong' }), 'push', 'a signature speaks already')
  t.is(also({ 'x-hub-signature-256': '' }), 'refused 401')
  t.is(also({ 'x-hub-signature-256': 'sha256=é' }), 'refused 401')
  const { 'x-hub-signature-256': _, ...unsigned } = github.headers
  const sha1 = createHmac('sha1', secret).update(github.body).digest('hex')
  t.is(verdict({ ...github, headers: { ...unsigned, 'x-hub-signature': `sha1=${sha1}` } }, { secret }), 'refused 401')
})

test('an empty secret proves nothing', t => {
  const { headers, body } = event('github')
  const signature = `sha256=${createHmac('sha256', '').update(body).digest('hex')}`
  for (const [name, proof] of [['x-hub-signature-256', signature] as const, ['x-gitlab-token', ''] as const])
    t.is(verdict({ headers: { ...headers, [name]: proof }, body }, { secret: '' }), 'refused 401', name)
})

test('Standard Webhooks: id, time and bytes are signed, five minutes long', t => {
  const gitlab = event('gitlab')
  const id = randomUUID()
  const seconds = Math.floor(now.getTime() / 1000)
  const signed = (key: string | Buffer, timestamp = String(seconds), signedAs = timestamp) => ({
    body: gitlab.body,
    headers: {
      ...gitlab.headers,
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,bm9wZQ== v1,${hmac(key, `${id}.${signedAs}.${gitlab.body}`, 'base64')}`,
    },
  })
  t.is(verdict(signed(secret), { secret }), 'push')
  t.is(read(signed(secret), { secret }).deliveryId, id)
  const key = Buffer.from('a key of thirty-two bytes, nearly')
  t.is(verdict(signed(key), { secret: `whsec_${key.toString('base64')}` }), 'push')
  t.is(verdict(signed('wrong'), { secret }), 'refused 401')
  t.is(verdict(signed(secret, String(seconds), String(seconds - 1)), { secret }), 'refused 401')
  for (const off of [-301, 301]) t.is(verdict(signed(secret, String(seconds + off)), { secret }), 'refused 401')
  for (const off of [-299, 299]) t.is(verdict(signed(secret, String(seconds + off)), { secret }), 'push')
  for (const time of ['', 'now', '-1', 'NaN']) t.is(verdict(signed(secret, time), { secret }), 'refused 401', time)
  const token = signed('wrong')
  t.is(verdict({ ...token, headers: { ...token.headers, 'x-gitlab-token': secret } }, { secret }), 'refused 401')
})

test('a form with the JSON in payload is read, and signed over the form', t => {
  const { headers, body } = event('github')
  const form = new URLSearchParams({ payload: body }).toString()
  const sent = (text: string, more: Record<string, string> = {}) => ({
    headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded; charset=utf-8', ...more },
    body: text,
  })
  t.is(verdict(sent(form)), 'push')
  t.is(verdict(sent(form, { 'x-hub-signature-256': `sha256=${hmac(secret, form)}` }), { secret }), 'push')
  t.is(verdict(sent(form, { 'x-hub-signature-256': `sha256=${hmac(secret, body)}` }), { secret }), 'refused 401')
  t.is(verdict(sent('other=1')), 'refused 415')
  t.is(verdict(sent('payload=no')), 'refused 400')
  t.is(verdict(sent(`a=1&xpayload=no&${form}&b=2`)), 'push', 'among other fields')
  t.is(verdict(sent(`${form}&payload=no`)), 'push', 'the first one counts')
  t.is(verdict(sent('payload=%')), 'refused 400')
  t.is(verdict(sent(`payload=${body.replaceAll(' ', '+')}`)), 'push', 'as sent by hand')
  t.is(verdict({ headers: { ...headers, 'content-type': 'text/plain' }, body }), 'refused 415')
  t.is(verdict({ headers: { ...headers, 'content-type': 'application/vnd.x+json' }, body }), 'push')
})

test('events other than pushes are ignored, whatever they contain', t => {
  const cases: [string, string, string][] = [
    ['x-github-event', 'ping', '{"zen":"Keep it logically awesome.","hook_id":1}'],
    ['x-github-event', 'pull_request', '{}'],
    ['x-gitea-event', 'delete', '{"ref":"x","ref_type":"branch"}'],
    ['x-forgejo-event', 'create', '{}'],
    ['x-gogs-event', 'release', '{}'],
    ['x-gitlab-event', 'Tag Push Hook', '{}'],
    ['x-gitlab-event', 'Merge Request Hook', '{}'],
    ['x-event-key', 'pullrequest:created', '{}'],
    ['x-event-key', 'diagnostics:ping', 'not json'],
  ]
  for (const [header, name, body] of cases) {
    const found = read({ headers: { 'content-type': 'application/json', [header]: name }, body })
    t.is(found.verdict.kind, 'ignored', name)
    t.is(found.event, name)
  }
})

test('missing and invalid fields are refused with a reason', t => {
  const good = JSON.parse(event('github').body)
  const sent = (change: object | string) => ({
    headers: { 'content-type': 'application/json', 'x-github-event': 'push' },
    body: typeof change === 'string' ? change : JSON.stringify({ ...good, ...change }),
  })
  const { owner: _, ...ownerless } = good.repository
  const { clone_url: __, ...homeless } = good.repository
  const at = (clone_url: string) => ({ repository: { ...good.repository, clone_url } })
  const cases: [string, object | string][] = [
    ['no JSON', '{"ref":'],
    ['empty', ''],
    ['list', '[]'],
    ['null', 'null'],
    ['no ref', { ref: undefined }],
    ['ref as number', { ref: 5 }],
    ['no repository', { repository: undefined }],
    ['no owner', { repository: ownerless }],
    ['no address', { repository: homeless }],
    ['ssh', at('git@git.example.org:ana/shop.git')],
    ['file', at('file:///etc/passwd')],
    ['ext', at('ext::sh -c id')],
    ['user in the address', at('https://ana:pw@git.example.org/x.git')],
    ['no commit', { after: undefined }],
    ['short commit', { after: 'abc' }],
    ['long commit', { after: 'a'.repeat(64) }],
    ['empty branch', { ref: 'refs/heads/' }],
    ['long branch', { ref: `refs/heads/${'x'.repeat(257)}` }],
    ['NUL in the branch', { ref: 'refs/heads/a\0b' }],
    ['half a character in the branch', { ref: 'refs/heads/\ud800' }],
  ]
  for (const [name, change] of cases) t.is(verdict(sent(change)), 'refused 400', name)
  t.is(verdict(sent({ ref: 'refs/notes/x' })), 'ignored 202')
  t.is(verdict(sent({ deleted: true })), 'ignored 202')
  t.is(verdict(sent({ after: commit.toUpperCase() })), 'push')
})

test('Bitbucket lists changes: the wanted branch counts, else the first', t => {
  const branch = (name: string, hash: string) => ({ old: null, new: { type: 'branch', name, target: { hash } } })
  const sent = (...changes: object[]) => ({
    headers: { 'content-type': 'application/json', 'x-event-key': 'repo:push', 'x-request-uuid': 'u1' },
    body: JSON.stringify({
      repository: {
        full_name: 'ana/shop',
        workspace: { slug: 'ana' },
        links: { html: { href: 'https://bitbucket.example.org/ana/shop' } },
      },
      push: { changes },
    }),
  })
  const [first, second] = [branch('dev', 'b'.repeat(40)), branch('main', 'c'.repeat(40))]
  const tag = { old: null, new: { type: 'tag', name: 'v1', target: { hash: 'd'.repeat(40) } } }
  t.like(read(sent(tag, first, second)).verdict, { branch: 'dev', commit: 'b'.repeat(40) })
  t.like(read(sent(first, second), { wantedBranch: 'main' }).verdict, {
    branch: 'main',
    commit: 'c'.repeat(40),
    cloneUrl: 'https://bitbucket.example.org/ana/shop.git',
  })
  t.is(verdict(sent(first), { wantedBranch: 'main' }), 'skipped 202')
  t.is(verdict(sent(tag, { old: first.new, new: null })), 'ignored 202')
  t.is(verdict(sent()), 'ignored 202')
})

test('an unknown sender is recognized by its payload, and its delivery by its bytes', t => {
  for (const provider of providers) {
    const { body } = event(provider)
    const headers = { 'content-type': 'application/json' }
    const found = read({ headers, body })
    t.is(found.provider, 'unknown')
    t.is(found.deliveryId, createHash('sha256').update(body).digest('hex'))
    t.like(found.verdict, { kind: 'push', branch: 'main', commit, cloneUrl }, provider)
    t.is(verdict({ headers, body }, { secret }), 'refused 401')
    const signed = { ...headers, 'x-hub-signature-256': `sha256=${hmac(secret, body)}` }
    t.is(verdict({ headers: signed, body }, { secret }), 'push')
  }
})

test('reasons are one line, whatever they quote', t => {
  const found = read(
    { headers: { 'content-type': 'application/json', 'x-github-event': 'a\tb' }, body: '{}' },
    {},
  ).verdict
  t.notRegex((found as { reason: string }).reason, /[\u0000-\u001f]/)
  const skipped = read(event('github'), { wantedBranch: `x\r\ny${'z'.repeat(400)}` }).verdict as { reason: string }
  t.notRegex(skipped.reason, /[\r\n]/)
})
