import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'
import { parseConfig } from '../policy/config.ts'
import { heapFlags } from '../workers/heap.ts'

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
const oneShot = ['temporal-schema', 'setup']

test('every part of an installation is there', t => {
  t.deepEqual(
    [...services.keys()],
    ['postgres', 'temporal-schema', 'temporal', 'temporal-ui', 'objects', 'setup', 'api', 'worker', 'host', 'proxy'],
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
  for (const [, image] of compose.matchAll(/image: (\S+)/g)) t.regex(image!, /:\d+\.\d+/)
  for (const [, image] of dockerfile.matchAll(/^FROM (\S+)/gm)) t.regex(image!, /^node:24\.\d+\.\d+-bookworm-slim$/)
})

test('the API is started with the same flags as without containers', t => {
  t.true(services.get('api')!.includes(['node', ...heapFlags].map(word => `"${word}"`).join(', ')))
})

test('nothing but the proxy is reachable from other machines', t => {
  for (const [, port] of compose.matchAll(/ports: \["([^"]+)"\]/g)) t.regex(port!, /^127\.0\.0\.1:/)
  t.false(/BIND_ADDRESS|HOST_ADDRESS/.test(compose), 'our own processes stay on loopback')
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

test('every setting that the processes get is one that Berth reads', t => {
  const start = compose.indexOf('environment: &environment')
  const block = compose.slice(start, compose.indexOf('  volumes: &data'))
  const pairs = [...block.matchAll(/^ {4}([A-Z0-9_]+): (.*)$/gm)].map(([, name, value]) => [name!, value!] as const)
  t.true(pairs.length > 20)
  const known = text('policy/config.ts')
  for (const [name] of pairs) t.true(known.includes(name), name)
  const defaults = (value: string): string => {
    const filled = value.replace(/\$\{([A-Z0-9_]+)(?::-([^${}]*))?(?::\?)?\}/g, (_, key, or) => or ?? key)
    return filled === value ? value : defaults(filled)
  }
  const filled = Object.fromEntries(pairs.map(([name, value]) => [name, defaults(value)]))
  const config = parseConfig(filled, '/')
  t.like(config.edge, { bind: '0.0.0.0', port: 80, controlSocket: '/var/lib/berth/run/edge/control.sock' })
  t.is(config.urls.files, 'http://files.BERTH_DOMAIN')
  t.is(config.appsDomain, 'apps.BERTH_DOMAIN')
  t.like(config.objectStore, { kind: 's3', bucket: 'berth' })
})
