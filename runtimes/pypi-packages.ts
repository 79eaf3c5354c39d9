import { writeFile } from 'node:fs/promises'
import { type Environment, runProcess } from '../lib/child-process.ts'

/**
 * The wheels of the stand-in for MongoDB, which are for the distribution's Python 3.11: the server, its dependencies, and the SHA-256 of
 * each as the registry published it, for x64 and arm64 where they differ. The client refuses everything else.
 */
export const standInWheels: readonly string[] = [
  wheel('secantusdb==0.7.0b3', [
    '0a21af2f488d5263c45beb328e68cea989217edf6a385fc491c24ea62ac3cec0',
    'ba26333efc24f3b6c621ffa0b463a15e0d5f75ed34b33f6eeede8a3f9af2a64e',
  ]),
  wheel('pymongo==4.20.1', [
    '41464411366fabc8db70212f1a10cd7b5953eae6ee6a6500d9522f37f1a04311',
    '1604e894ed2112f16fa28b99b444b4f9dce9729f0fca1e3274eda70a4850ab4d',
  ]),
  wheel('shapely==2.2.0', [
    '5d61088e2ef71dafad0dd4fae8a521cc1f20da4a89d3096bab5b3260b39b3052',
    '7765e0e5d51d63eae0a911861cbda87165a01677bc9bce6ed20d06858ccde99f',
  ]),
  wheel('numpy==2.4.6', [
    '89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93',
    '0ab0a9c4ffb1a6d95ef519fe4247dba8eb6b18ad93999f76b7f657039acabd47',
  ]),
  wheel('dnspython==2.9.2', ['af15f7d385a6ae2fb35a796fde2138004c8c42c7389090e2addc83e3b3340fd8']),
  wheel('future==1.0.0', ['929292d34f5872e70396626ef385ec22355a1fae8ad29e1a734c3e43f9fbc216']),
  wheel('python-dateutil==4.0.0', ['a5e246f79eb80475e691bf93862cead98decd8a498cf53ba0516fcdc0f50dc1c']),
  wheel('s2sphere==0.2.5', ['d2340c9cf458ddc9a89afd1d8048a4195ce6fa6b0095ab900d4be5271e537401']),
  wheel('tzdata==2026.6', ['0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec']),
]

function wheel(requirement: string, digests: readonly string[]): string {
  return [requirement, ...digests.map(digest => `--hash=sha256:${digest}`)].join(' ')
}

const wheelPlatforms: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' }

/**
 * Fetches wheels for the distribution's Python 3.11 into the folder. Rejects with an Error when one is not what was published, or
 * the client is missing.
 */
export async function fetchWheels(
  folder: string,
  wheels: readonly string[],
  { arch, env }: { arch: string; env: Environment },
): Promise<void> {
  const requirements = `${folder}/requirements.txt`
  await writeFile(requirements, wheels.map(line => `${line}\n`).join(''))
  const platforms = ['manylinux2014', 'manylinux_2_24', 'manylinux_2_28'].map(
    name => `--platform=${name}_${wheelPlatforms[arch] ?? arch}`,
  )
  const target = ['--python-version=3.11', '--implementation=cp', '--abi=cp311', '--abi=none', ...platforms]
  const strict = ['--no-deps', '--only-binary=:all:', '--require-hashes']
  const quiet = ['--quiet', '--no-cache-dir', '--disable-pip-version-check']
  try {
    await runProcess(
      'pip3',
      ['download', ...quiet, ...strict, ...target, `--dest=${folder}`, `--requirement=${requirements}`],
      { env },
    )
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string }
    const reason = code === 'ENOENT' ? 'pip3 is not installed (in Debian: python3-pip).' : stderr?.trim()
    throw new Error(`The packages of Python could not be fetched: ${reason}`, { cause: error })
  }
}
