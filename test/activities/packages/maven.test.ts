import test from 'ava'
import { packageManagers } from '../../../policy/packages/registries.ts'
import { quotedShell } from '../../../policy/runtimes/runtime.ts'
import { type Files, textIn } from '../../kit/hosts/installs.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
import { packageSteps } from '../../kit/hosts/package-steps.ts'
import {
  damageStored,
  demandPassedOn,
  get,
  hasDocumentsAlone,
  killDuringDownload,
  loopbackPackages,
} from '../../kit/hosts/packages.ts'
import { toolImages } from '../../kit/hosts/tool-images.ts'

/* Archives of Maven: with the real mvn in build containers, and by requests as it makes them. */
const { docker, scene, gateway } = packageSteps([toolImages.java])

async function requesting(t: Parameters<typeof loopbackPackages>[0]) {
  const registry = await packageRegistry()
  t.teardown(() => registry.close())
  const packages = await loopbackPackages(t, { named: registry.named })
  return { registry, ...packages, origin: await packages.base('maven') }
}

/** A project that needs an archive before Maven does anything, which then needs no plugin. */
const project = (repositories = ''): Files => ({
  'Main.java': '',
  'pom.xml':
    '<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>app</artifactId><version>1</version>' +
    '<packaging>pom</packaging><build><extensions><extension><groupId>test</groupId><artifactId>tiny</artifactId>' +
    `<version>1.0.0</version></extension></extensions></build>${repositories}</project>`,
})
const java = { language: 'java', runtimeVersion: '21', main: 'Main.java' } as const
const local = '/tmp/.m2/repository/test/tiny/1.0.0'
const downloading = (folder = '.') => ({
  build: `(cd ${folder} && MAVEN_OPTS=-XX:TieredStopAtLevel=1 mvn -B -ntp -Dmaven.repo.local=/tmp/.m2/repository validate) && mkdir -p .berth/app && cp ${local}/* .berth/app/`,
})

test.serial('two accounts build with the same archive of Maven, which is downloaded once', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await scene(t)
  const { jar, pom, bytes } = registry.publishRelease('tiny', '1.0.0')
  for (const one of [await app(), await app()]) {
    const { folders, log } = await one.push(project(), java, downloading())
    t.is(await textIn(folders.dependencies, 'app/tiny-1.0.0.jar'), bytes.toString('utf8'))
    t.regex((await textIn(folders.dependencies, 'app/_remote.repositories')) ?? '', /tiny-1\.0\.0\.jar>central=/)
    t.notRegex(log, /hecksum/, 'Maven verifies it')
  }
  for (const path of [jar, pom]) {
    t.is(registry.count(path), 1, path)
    t.is(registry.count(`${path}.sha1`), 1, path)
  }
  t.like(await cache.counts(), { downloads: 2, hits: 2, troubles: 0, passedOn: 0 })
})

test.serial('an archive of Maven that is not what lies next to it is not stored', async t => {
  t.timeout(170_000)
  const { registry, app, cache, specs } = await scene(t)
  const { jar, bytes } = registry.publishRelease('tiny', '1.0.0')
  const { push } = await app()
  const build = downloading().build.replace('mvn ', 'mvn -C ')
  registry.tamper(jar, Buffer.concat([bytes, Buffer.from('x')]))
  await t.throwsAsync(push(project(), java, { build }), { message: /exit code 1/ })
  t.is(specs.length, 2, 'builds may not reach a named registry, so it is tried without the cache')
  t.like(await cache.counts(), { downloads: 1 }, 'its pom alone')
  registry.tamper(jar, bytes)
  registry.unpublish(`${jar}.sha1`)
  const { folders } = await push(project(), java, downloading())
  t.is(await textIn(folders.dependencies, 'app/tiny-1.0.0.jar'), bytes.toString('utf8'), 'from the registry itself')
  t.like(await cache.counts(), { downloads: 1 })
  registry.publishRelease('tiny', '1.0.0')
  t.not(await textIn((await push(project(), java, { build })).folders.dependencies, 'app/tiny-1.0.0.jar'), null)
  t.like(await cache.counts(), { downloads: 2 })
  t.is(specs.length, 4)
})

test.serial('a build with Maven whose cache is killed during a download is tried once more without it', async t => {
  t.timeout(170_000)
  const { registry, app, folder } = await scene(t)
  const { jar, bytes } = registry.publishRelease('tiny', '1.0.0')
  killDuringDownload(registry, folder, jar, bytes)
  const { folders, log } = await (await app()).push(project(), java, downloading())
  t.not(await textIn(folders.dependencies, 'app/tiny-1.0.0.jar'), null)
  t.regex(log, /could not be installed from the cache of the host/)
})

test.serial('a project that names a repository of Maven requests nothing from the cache', async t => {
  t.timeout(170_000)
  const { registry, app, cache } = await scene(t)
  registry.publishRelease('tiny', '1.0.0')
  const tiny = '<groupId>test</groupId><artifactId>tiny</artifactId><version>1.0.0</version>'
  const pom = (text: string) =>
    `<project><modelVersion>4.0.0</modelVersion>${text}<packaging>pom</packaging><name>own</name></project>`
  const central = '<repositories><repository><id>central</id><url>file:///app/own</url></repository></repositories>'
  const files = {
    ...project(),
    'server/pom.xml': pom(`<parent>${tiny}<relativePath/></parent><artifactId>server</artifactId>${central}`),
    'own/test/tiny/1.0.0/tiny-1.0.0.pom': pom(tiny),
  }
  const { folders, log } = await (await app()).push(files, java, downloading('server'))
  t.regex((await textIn(folders.dependencies, 'app/tiny-1.0.0.pom')) ?? '', /<name>own/)
  t.regex(log, /may name a repository of Maven/)
  t.deepEqual(registry.requests, [])
  t.like(await cache.counts(), { downloads: 0, hits: 0, passedOn: 0, entries: 0 })
})

test.serial('a build with Maven that uses a proxy reaches the cache without it', async t => {
  t.timeout(170_000)
  const { registry, app, cache, host } = await scene(t)
  registry.publishRelease('tiny', '1.0.0')
  const nowhere = `http://${gateway()}:9`
  const buildProxy = { http: nowhere, https: nowhere, none: 'internal.test' }
  Object.assign(host, { traits: { ...host.traits, buildProxy } })
  await (await app()).push(project(), java, downloading())
  t.like(await cache.counts(), { downloads: 2, troubles: 0, passedOn: 0 })
})

test('which files of a project keep Maven from the cache', async t => {
  const plain: [string, string][] = [
    ['README.md', '<repositories>'],
    ['pom.xml', '<distributionManagement><repository><id>x</id></repository></distributionManagement>'],
    ['src/beans.xml', '<jpa:repositories base-package="x"/>'],
    ['.mvn/wrapper/maven-wrapper.properties', 'x'],
  ]
  const named: [string, string][] = [
    ['pom.xml', '<repositories><repository>'],
    ['pom.xml', '<project>\n<pluginRepositories\n>'],
    ['server/app/pom.xml', '  <repositories>'],
    ['parent.pom', '<repositories >'],
    ['ci/settings.xml', '<settings><mirrors>'],
    ['ci/settings.xml', '<settings><servers>'],
    ['.mvn/maven.config', '-s ci/x'],
    ['.mvn/jvm.config', ''],
    ['server/.mvn/extensions.xml', ''],
  ]
  const use = packageManagers.maven.use(new URL('http://10.1.0.1:21000/maven/'))
  const cases = [...plain, ...named].map(
    ([name, text]) =>
      `rm -rf /tmp/p /tmp/.m2; mkdir -p /tmp/p && cd /tmp/p && mkdir -p "$(dirname ${name})" && printf '%s' ${quotedShell(text)} > ${name}; ` +
      `{ ${use}; } > /tmp/report; [ -s /tmp/report ] && echo named || cat /tmp/.m2/settings.xml; echo`,
  )
  let printed = ''
  const add = (text: string) => {
    printed += text
  }
  const spec = docker.spec(cases.join('\n'), { image: toolImages.java })
  await docker.host.runToEnd(spec, add, AbortSignal.timeout(60_000))
  const reported = printed.split('\n').filter(line => line !== '')
  t.deepEqual(
    reported.map(line => line === 'named'),
    [...plain.map(() => false), ...named.map(() => true)],
  )
  t.regex(reported[0] ?? '', /<mirrorOf>central<\/mirrorOf><url>http:\/\/10\.1\.0\.1:21000\/maven\/<\/url>/)
})

test('an archive of Maven is stored once its SHA-1 is known, which then follows from it, and a damaged one is downloaded again', async t => {
  const { registry, origin, folder, cache } = await requesting(t)
  const { jar, bytes } = registry.publishRelease('tiny', '1.0.0')
  const digest = await (await fetch(registry.maven.replace('/maven/', `${jar}.sha1`))).text()
  registry.requests.length = 0
  for (let n = 0; n < 2; n++) {
    t.true((await get(origin + jar)).body.equals(bytes))
    const answer = await get(`${origin}${jar}.sha1`)
    t.deepEqual([answer.status, answer.body.toString()], [200, digest])
  }
  t.deepEqual([...registry.requests].sort(), [`GET ${jar}`, `GET ${jar}.sha1`])
  const head = await get(`${origin}${jar}.sha1`, { method: 'HEAD' })
  t.deepEqual([head.headers['content-length'], head.body.length], ['40', 0])
  t.like(await cache.counts(), { downloads: 1, hits: 1, troubles: 0, passedOn: 0 })
  await damageStored(folder)
  t.is((await get(`${origin}${jar}.sha1`)).body.toString(), digest, 'of the registry: nothing else is there')
  t.is(registry.count(`${jar}.sha1`), 2)
  t.true((await get(origin + jar)).body.equals(bytes))
  t.is(registry.count(jar), 2)
})

test('an archive of Maven that is another, or has no SHA-1, is passed on, and its SHA-1 is that of the repository', async t => {
  const { registry, origin, folder, cache, warnings } = await requesting(t)
  const { jar, pom, bytes } = registry.publishRelease('tiny', '1.0.0')
  registry.unpublish(`${pom}.sha1`)
  const digest = await (await fetch(registry.maven.replace('/maven/', `${jar}.sha1`))).text()
  const wrong: [string, Buffer][] = [
    [jar, Buffer.concat([bytes, Buffer.from('x')])],
    [jar, bytes.subarray(0, -1)],
    [pom, bytes],
  ]
  await demandPassedOn(t, wrong, { origin, registry: registry.maven, tamper: registry.tamper })
  t.is((await get(`${origin}${jar}.sha1`)).body.toString(), digest)
  t.is((await get(`${origin}${pom}.sha1`)).status, 404)
  t.like(await cache.counts(), { downloads: 0, passedOn: wrong.length })
  t.true(await hasDocumentsAlone(folder))
  t.true(warnings.some(words => words.includes('not what its document says')))
})

test('versions and snapshots of Maven are requested each time, and stored ones are used where the repository does not answer', async t => {
  const { registry, origin, folder } = await requesting(t)
  const { jar, metadata, bytes } = registry.publishRelease('tiny', '1.0.0')
  const snapshot = jar.replaceAll('1.0.0', '1.0.0-SNAPSHOT')
  registry.tamper(snapshot, bytes)
  for (let n = 0; n < 2; n++) {
    t.true((await get(origin + snapshot)).body.equals(bytes))
    t.regex((await get(origin + metadata)).body.toString(), /<version>1\.0\.0<\/version>/)
  }
  await get(origin + jar)
  t.is(registry.count(snapshot), 2)
  t.is(registry.count(metadata), 2)
  registry.publishRelease('tiny', '2.0.0')
  t.regex((await get(origin + metadata)).body.toString(), /<version>2\.0\.0<\/version>/)
  registry.instead = (_, response) => Boolean(response.writeHead(503).end())
  t.true((await get(origin + snapshot)).body.equals(bytes))
  t.true((await get(origin + jar)).body.equals(bytes))
  t.is((await get(`${origin}${jar}.sha1`)).status, 200)
  t.regex((await get(origin + metadata)).body.toString(), /<version>2\.0\.0<\/version>/)
  t.false(await hasDocumentsAlone(folder))
})

test('only archives, their digests and lists of versions are requested from a repository of Maven', async t => {
  const { registry, origin } = await requesting(t)
  registry.publishRelease('tiny', '1.0.0')
  t.is((await get(`${origin}/maven/test/tiny/2.0.0/tiny-2.0.0.jar`)).status, 404, 'the registry has none')
  registry.requests.length = 0
  for (const path of ['', 'test/tiny/', 'test/tiny/1.0.0/other-1.0.0.jar', 'archetype-catalog.xml'])
    t.is((await get(`${origin}/maven/${path}`)).status, 404, path)
  t.deepEqual(registry.requests, [])
})
