/** A manifest that requests nothing. */
export const emptyManifest = { 'package.json': '{"name":"bench","version":"1.0.0","private":true}\n' }

/** Small packages of the public registry, whose figures stay the same. */
const packages = {
  'escape-html': [
    '1.0.3',
    'sha512-NiSupZ4OeuGwr68lGIeym/ksIZMJodUGOSCZ/FSnTxcrekbvqrgdUxlJOMpijaKZVjAJrWrGs/6Jy8OMuyj9ow==',
  ],
  ms: ['2.1.3', 'sha512-6FlzubTLZG3J2a/NVCAleEhjzq5oxgHyaCU9yYXvcLsvoVaHJq/s5xXI6/XXP6tz7R9xAOtHnSO/tXtF3WRTlA=='],
} as const

/** A manifest with dependencies and its lock file; each `salt` makes another lock file of the same packages. */
export function lockedManifest(salt: string): Record<string, string> {
  const dependencies = Object.fromEntries(Object.entries(packages).map(([name, [version]]) => [name, version]))
  const locked = Object.entries(packages).map(([name, [version, integrity]]) => [
    `node_modules/${name}`,
    { version, integrity, license: 'MIT' },
  ])
  const root = { name: 'bench', version: '1.0.0', dependencies }
  const lock = { name: 'bench', version: '1.0.0', lockfileVersion: 3, requires: true, salt }
  return {
    'package.json': JSON.stringify({ ...root, private: true }),
    'package-lock.json': JSON.stringify({ ...lock, packages: { '': root, ...Object.fromEntries(locked) } }),
  }
}

/** A manifest whose install step runs a script of its own, and so always needs a build container. */
export const scriptedManifest = (salt: string): Record<string, string> => ({
  'package.json': JSON.stringify({
    name: 'bench',
    version: '1.0.0',
    private: true,
    scripts: { install: `echo ${salt}` },
  }),
})
