import { existsSync, readdirSync, readFileSync } from 'node:fs'
import test from 'ava'
import { clusterForm } from '../cli/services/postgres-cluster.ts'
import { parseConfig } from '../policy/config.ts'
import { systemStores } from '../policy/hosts/build-settings.ts'
import { outsideSecrets } from '../policy/installation/outside-secrets.ts'
import { refusePlainHttp } from '../policy/installation/plain-http.ts'
import { heapFlags } from '../workers/supervisor/heap.ts'

const text = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')
const compose = text('docker-compose.yml')
const dockerfile = text('Dockerfile')
const example = text('.env.example')

/** Services by name with the text of each, read by the file's own indentation. */
const services = new Map(
  compose
    .slice(compose.indexOf('\nservices:\n') + 11, compose.indexOf('\nvolumes:\n'))
    .split(/^ {2}(?=[a-z-]+:$)/m)
    .slice(1)
    .map(part => [part.slice(0, part.indexOf(':')), part] as const),
)
const oneShot = ['temporal-schema', 'folders', 'setup']
const ours = ['folders', 'setup', 'api', 'worker', 'host', 'proxy', 'analytics']
const byOurs = (a: string, b: string) => ours.indexOf(a) - ours.indexOf(b)

test('every part of an installation is there', t => {
  t.deepEqual(
    [...services.keys()],
    [
      'postgres',
      'temporal-schema',
      'temporal',
      'temporal-ui',
      'objects',
      'folders',
      'setup',
      'api',
      'worker',
      'host',
      'proxy',
      'analytics',
    ],
  )
})

test('each service that stays has a health check; each that ends is waited for', t => {
  for (const [name, part] of services) {
    if (oneShot.includes(name))
      t.regex(compose, new RegExp(`${name}: \\{ condition: service_completed_successfully \\}`))
    else t.regex(part, /healthcheck:[\s\S]*test: \["CMD"/, name)
  }
})

test('images are pinned to a version, and Node is the long-term release', t => {
  const images = [...compose.matchAll(/\bimage:(.*)/g)].map(([, image]) => image!)
  // Each foreign service has its own, and ours share one.
  t.is(images.length, services.size - ours.length + 1)
  for (const image of images) t.regex(image, /^ [a-z/-]+:\d+\.\d+[\w.-]*$/)
  const stages = [...dockerfile.matchAll(/^FROM(.*)/gim)].map(([, image]) => image!)
  t.true(stages.length > 0)
  for (const image of stages) t.regex(image, /^ node:24\.\d+\.\d+-bookworm-slim( AS \w+)?$/)
})

test('the database of an installation sorts alike on every machine, as the one that berth up makes', t => {
  t.deepEqual(/^ {6}POSTGRES_INITDB_ARGS: (.*)$/m.exec(services.get('postgres')!)?.[1]?.split(' '), [...clusterForm])
  t.true(
    text('docs/installation.md')
      .replaceAll('\n', ' ')
      .includes(`initdb ${clusterForm.join(' ')}`),
  )
})

test('the API is started with the same flags as without containers', t => {
  t.true(services.get('api')!.includes(['node', ...heapFlags].map(word => `"${word}"`).join(', ')))
})

test('nothing but the proxy is reachable from other machines', t => {
  const published = [...compose.matchAll(/ports:(.*)/g)].map(([, ports]) => ports!)
  t.is(published.length, 4)
  for (const ports of published) t.regex(ports, /^ \["127\.0\.0\.1:[^",]+"\]$/)
  // On the machine's own network whatever a program binds is reachable: that is for ours, which bind to loopback.
  t.deepEqual(compose.match(/network_mode:(?! none).*/g), ['network_mode: host'])
  t.true(compose.split('x-plain:')[0]!.includes('\n  network_mode: host\n'))
  for (const [name, part] of services) t.is(/^ {4}<<: \*berth$/m.test(part), ours.includes(name), name)
  t.false(/BIND_ADDRESS|HOST_ADDRESS/.test(compose), 'our own processes stay on loopback')
})

test('a host gets every variable from which builds take their proxy', t => {
  const readers = ['build-settings', 'proxy-address'].map(name => text(`policy/hosts/${name}.ts`)).join('\n')
  const read = [...readers.matchAll(/env\.(\w*proxy)\b/gi)].map(([, name]) => name!)
  t.true(read.includes('https_proxy') && read.includes('NO_PROXY'))
  for (const name of read) t.regex(services.get('host')!, new RegExp(`^ {6}${name}:$`, 'm'))
})

test('the machine’s authorities are looked for where the file and the page put them', t => {
  const [, target] = /^ {6}- \/etc\/ssl\/certs:(\S+):ro$/m.exec(services.get('host')!) ?? []
  const overridden = [...text('docs/installation.md').matchAll(/`- \/\S+:(\/run\/\S+):ro`/g)].map(([, path]) => path)
  t.deepEqual(overridden, [target, target], 'an override replaces the folder')
  const stores = systemStores.filter(path => path.startsWith(`${target}/`)).map(path => path.split('/').at(-1))
  t.deepEqual(stores, ['ca-certificates.crt', 'tls-ca-bundle.pem', 'ca-bundle.pem'])
})

test('a new pair of the object store recreates its container', t => {
  t.regex(services.get('objects')!, /^ {4}labels: \{ berth\.account: "\$\{S3_STORE_ACCESS_KEY_ID:\?\}" \}$/m)
})

test('every process that is started exists', t => {
  const started = [...compose.matchAll(/dist\/(workers\/[a-z-]+)\.js/g)].map(([, path]) => path)
  t.true(started.includes('workers/proxy'))
  for (const path of started) t.true(existsSync(new URL(`../${path}.ts`, import.meta.url)), path)
})

test('every variable that the file demands stands in .env.example, and no secret has a value there', t => {
  const demanded = new Set([...compose.matchAll(/\$\{([A-Z0-9_]+)/g)].map(([, name]) => name!))
  for (const name of demanded) if (name !== 'RATE_LIMIT_SCALE') t.regex(example, new RegExp(`^${name}=`, 'm'))
  for (const [, name, value] of example.matchAll(/^([A-Z0-9_]*(?:KEY|PASSWORD)[A-Z0-9_]*)=(.*)$/gm))
    t.is(value, '', name)
  t.regex(text('.gitignore'), /^\.env$/m)
})

/** Variables of one of our services, those of the blocks that it takes in first. */
function environmentOf(name: string): Map<string, string> {
  const pairs = (part: string, indent: number) =>
    [...part.matchAll(new RegExp(`^ {${indent}}([A-Z0-9_]+):(.*)$`, 'gm'))].map(
      // A name without a value takes the one of .env, or none.
      ([, key, value]) => [key!, value!.trim() || `\${${key}}`] as const,
    )
  const block = (anchor: string) => pairs(compose.split(`: &${anchor}\n`)[1]?.split('\n\n')[0] ?? '', 2)
  const part = services.get(name) ?? ''
  const taken = /<<: \[?((?:\*(?:plain|work|git-provider)(?:, )?)+)\]?$/m.exec(part)?.[1]?.match(/[\w-]+/g) ?? []
  return new Map([...taken.flatMap(block), ...pairs(part.split('environment:')[1] ?? '', 6)])
}

/** What one of our services gets where .env says no more than `own`. */
function filled(name: string, own: Record<string, string> = {}): Record<string, string> {
  const value = (text: string): string => {
    const whole = text.replace(/\$\{([A-Z0-9_]+)(?::-([^${}]*))?(?::\?)?\}/g, (_, key, or) => own[key] ?? or ?? key)
    return whole === text ? text : value(whole)
  }
  const given = [...environmentOf(name)].filter(([key, text]) => text !== `\${${key}}` || key in own)
  return Object.fromEntries(given.map(([key, text]) => [key, value(text)]))
}

test('every setting that the processes get is one that Berth reads', t => {
  const known = [
    'config',
    'retention',
    'accounts/captcha',
    'ai/ai-settings',
    'databases/database-settings',
    'domains/domain-settings',
    'edge/edge-settings',
    'git/git-provider-settings',
    'git/git-proxy',
    'hosts/build-settings',
    'hosts/warm-images',
    'installation/edge-place',
    'installation/edge-tls',
    'installation/temporal-settings',
    'network/analytics-settings',
    'objects/blob-settings',
    'packages/registries',
  ]
    .map(name => text(`policy/${name}.ts`))
    .join('\n')
  for (const name of ours) for (const key of environmentOf(name).keys()) t.true(known.includes(key), `${name}: ${key}`)
  t.true(environmentOf('worker').size > 20)
  const config = parseConfig(filled('worker'), '/')
  t.like(config.edge, { bind: '0.0.0.0', port: 80, controlSocket: '/var/lib/berth/run/edge/control.sock' })
  t.is(config.urls.files, 'http://files.BERTH_DOMAIN')
  t.is(config.appsDomain, 'apps.BERTH_DOMAIN')
  t.like(config.objectStore, { kind: 's3', bucket: 'berth' })
  const { files, public: open } = config.edge.names
  const edge = { ...config.edge, names: { files, public: open } }
  const proxy = parseConfig(filled('proxy'), '/')
  t.deepEqual(proxy.edge, edge)
  t.like(proxy, { ports: config.ports, rateLimitScale: 1 })
})

test('plain http is refused by every process unless .env asks for it', t => {
  const start = (name: string, own: Record<string, string>) => refusePlainHttp(parseConfig(filled(name, own), '/'))
  for (const name of ['setup', 'api', 'worker', 'host', 'proxy', 'analytics']) {
    t.throws(() => start(name, {}), { message: /plain http/ }, name)
    t.notThrows(() => start(name, { ALLOW_PLAIN_HTTP: 'on' }), name)
    t.throws(() => start(name, { BERTH_SCHEME: 'https' }), { message: /no EDGE_TRUSTED_PROXIES/ }, name)
    t.notThrows(() => start(name, { BERTH_SCHEME: 'https', EDGE_TRUSTED_PROXIES: '10.0.0.9' }), name)
    t.notThrows(() => start(name, { BERTH_SCHEME: 'https', EDGE_BIND: '127.0.0.1' }), name)
  }
  const own = Object.fromEntries(
    [...example.matchAll(/^([A-Z0-9_]+)=(.+)$/gm)].map(([, name, value]) => [name!, value!]),
  )
  t.throws(
    () => start('api', own),
    { message: /no EDGE_TRUSTED_PROXIES/ },
    'the example as it is names nobody who ends TLS',
  )
  t.regex(example, /^BERTH_SCHEME=https$/m)
  t.regex(example, /^ALLOW_PLAIN_HTTP=$/m)
})

test('every setting can be given to an installation, by those processes that read it', t => {
  const documented = text('docs/settings.md').split('\n## The command itself')[0]!
  const names = [...documented.matchAll(/^\| (`[A-Z0-9_`, ]+`) \|/gm)].flatMap(
    ([, cell]) => cell!.match(/[A-Z0-9_]+/g)!,
  )
  t.true(names.length > 60)
  const given = new Set(ours.flatMap(name => [...environmentOf(name).keys()]))
  t.deepEqual(
    names.filter(name => !given.has(name)),
    [
      // What the file itself decides: folders, addresses on loopback, names of Temporal.
      ...[
        'BERTH_EARLIER_KEY_CHECKS',
        'POSTGRES_PORT',
        'TEMPORAL_PORT',
        'TEMPORAL_UI_PORT',
        'S3RVER_PORT',
        'TOY_MODEL_PORT',
        'BIND_ADDRESS',
      ],
      ...['TEMPORAL_NAMESPACE', 'QUEUE_PREFIX', 'DOCKER_HOST', 'OBJECT_STORE_FOLDER'],
      ...['EDGE_CONTROL_SOCKET', 'EDGE_ROUTES_FILE', 'HOST_ADDRESS'],
    ],
  )
  const holders = (name: string) => ours.filter(service => environmentOf(service).has(name))
  t.deepEqual(holders('CAPTCHA_SECRET_KEY'), ['api'])
  t.deepEqual(holders('AI_UPSTREAM_KEY'), ['api'])
  t.deepEqual(holders('GIT_PROVIDER_PRIVATE_KEY'), ['api', 'host'])
  for (const { settings, processes } of Object.values(outsideSecrets)) {
    // A command takes a system for known where one of its settings is given, empty or not.
    const reported = ours.filter(service => settings.some(name => name in filled(service)))
    t.deepEqual(reported, [...processes].sort(byOurs), settings.join())
    for (const name of settings) t.deepEqual(holders(name), reported, name)
  }
  for (const own of ['HOST_MEMORY_MB', 'HOST_DISK_MB']) t.deepEqual(holders(own), ['host'], own)
  t.deepEqual(
    holders('DISK_MB_PER_256MB'),
    ['api', 'worker', 'host'],
    'placement, changes of memory, and the disk itself',
  )
  t.deepEqual(holders('TEMPORAL_TLS_KEY'), ['setup', 'api', 'worker', 'host'])
  t.deepEqual(holders('EDGE_APP_BODY_MB'), ['proxy'])
  t.deepEqual(holders('PLANS_FILE'), ['api', 'worker', 'host'], 'operators give their commands at the host')
})

test('each of our containers has a user, gives up what it does not need, and cannot write its own files', t => {
  const common = compose.split('x-berth: &berth\n')[1]!.split('\n\n')[0]!
  t.regex(common, /^ {2}cap_drop: \[ALL\]$/m)
  t.regex(common, /^ {2}security_opt: \["no-new-privileges:true"\]$/m)
  t.regex(common, /^ {2}read_only: true$/m)
  t.notRegex(common, /environment|volumes|privileged/, 'secrets and folders are given one by one')
  const users = new Map(ours.map(name => [name, /^ {4}user: "(\d+):\1"$/m.exec(services.get(name)!)?.[1]]))
  t.deepEqual(Object.fromEntries(users), {
    folders: '0',
    setup: '812',
    api: '810',
    worker: '811',
    host: '0',
    proxy: '0',
    analytics: '813',
  })
  const own = users.get('api')
  t.true(text('docs/installation.md').includes(`chown ${own}:${own}`), 'the owner of a private key that is a file')
  for (const user of users.values()) if (user !== '0') t.true(dockerfile.includes(`:${user}`), user)
  for (const name of ours) {
    const part = services.get(name)!
    t.true(part.includes('<<: *berth'), name)
    t.notRegex(part, /security_opt/, name)
    if (name === 'host') continue
    t.notRegex(part, /^ {4}(privileged|cap_drop|read_only|.*docker\.sock)/m, name)
  }
  const capabilities = (name: string) => /cap_add: \[(.*)\]/.exec(services.get(name)!)?.[1]?.split(', ') ?? []
  for (const name of ['setup', 'api', 'worker']) t.deepEqual(capabilities(name), [], name)
  t.deepEqual(capabilities('proxy'), ['NET_BIND_SERVICE', 'SETUID', 'SETGID', 'CHOWN', 'DAC_OVERRIDE', 'KILL'])
})

test('each process gets only the secrets and folders that it needs', t => {
  const secret = /\$\{[A-Z0-9_]*(?:KEY|KEYS|KEY_ID|PASSWORD|SECRET)(?::|\})|SMTP_URL/
  const secretsOf = (name: string) =>
    [...environmentOf(name)].filter(([, value]) => secret.test(value)).map(([key]) => key)
  const temporal = ['TEMPORAL_TLS_KEY', 'TEMPORAL_API_KEY']
  const work = [
    'BERTH_MASTER_KEY',
    'BERTH_SEAL_KEYS',
    'DATABASE_URL',
    'S3_STORE_ACCESS_KEY_ID',
    'S3_STORE_SECRET_ACCESS_KEY',
    ...temporal,
  ]
  t.deepEqual(secretsOf('proxy'), [])
  t.deepEqual(secretsOf('folders'), [])
  t.deepEqual(secretsOf('setup'), ['BERTH_MASTER_KEY', 'DATABASE_OWNER_URL', 'DATABASE_URL', ...temporal])
  const provider = ['GIT_PROVIDER_PRIVATE_KEY', 'GIT_PROVIDER_WEBHOOK_SECRET', 'GIT_PROVIDER_CLIENT_SECRET']
  t.deepEqual(secretsOf('api'), [...work, ...provider, 'CAPTCHA_SITE_KEY', 'CAPTCHA_SECRET_KEY', 'AI_UPSTREAM_KEY'])
  t.deepEqual(secretsOf('host'), [...work, ...provider])
  t.deepEqual(secretsOf('worker'), [...work, 'SMTP_URL', 'EDGE_CERTIFICATE_KEY'])
  for (const name of ['api', 'worker', 'host']) {
    t.true(environmentOf(name).get('DATABASE_URL')?.startsWith('postgres://berth_process:'), name)
    t.false(environmentOf(name).has('DATABASE_OWNER_URL'), name)
  }
  const foldersOf = (name: string) =>
    [...services.get(name)!.matchAll(/- (?:&config )?\$\{BERTH_DATA:-\/var\/lib\/berth\}(\S*?):/g)].map(
      ([, path]) => path,
    )
  t.deepEqual(foldersOf('api'), ['/config'])
  t.regex(services.get('api')!, /- &config \S+\/config:\S+\/config:ro$/m)
  t.regex(services.get('worker')!, /- \*config$/m)
  t.deepEqual(foldersOf('worker'), ['/run/edge', '/mail'])
  t.deepEqual(foldersOf('proxy'), ['/run/edge', '/proxy'])
})

test('every child and every process of an installation is bundled', async t => {
  const { programs }: { programs: string[] } = await import(new URL('../scripts/bundle.mjs', import.meta.url).href)
  const children = readdirSync(new URL('../activities', import.meta.url)).filter(folder =>
    existsSync(new URL(`../activities/${folder}/child.ts`, import.meta.url)),
  )
  const started = [...`${compose}${dockerfile}`.matchAll(/dist\/([\w/-]+)\.js/g)].map(([, path]) => path!)
  t.true(children.length > 3 && started.length > 3)
  for (const program of [...children.map(folder => `activities/${folder}/child`), ...started, 'cli/main'])
    t.true(programs.includes(program), program)
  for (const program of programs) t.true(existsSync(new URL(`../${program}.ts`, import.meta.url)), program)
})

test('a bundle is read one byte for each character', async t => {
  const { inAscii } = await import(new URL('../scripts/bundle.mjs', import.meta.url).href)
  const text = 'const seen = /^\\s+✔ (.*)/u.test(name) // §'
  t.is(inAscii(text), 'const seen = /^\\s+\\u2714 (.*)/u.test(name) // \\u00a7')
  t.true(new RegExp(inAscii('^[✔😀]$'), 'u').test('😀'))
})
