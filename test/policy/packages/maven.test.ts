import test from 'ava'
import { checksumIn, repositoryFile } from '../../../policy/packages/maven.ts'

test('of a repository of Maven files of releases are archives, and all that changes or has no digest is a document', t => {
  const at: Record<string, string[]> = {
    archive: [
      'org/tiny/tiny/1.0.0/tiny-1.0.0.jar',
      'org/tiny/tiny/1.0.0/tiny-1.0.0.pom',
      'org/tiny/tiny_2.13/1.0+1/tiny_2.13-1.0+1-sources.jar',
      'tiny/tiny/1.0.0/tiny-1.0.0.tar.gz',
      'tiny/tiny/1.0.0/tiny-1.0.0-sha1.jar',
    ],
    checksum: ['org/tiny/tiny/1.0.0/tiny-1.0.0.jar.sha1', 'org/tiny/tiny/1.0.0/tiny-1.0.0.pom.sha1'],
    document: [
      'org/tiny/maven-metadata.xml',
      'org/apache/maven/plugins/maven-metadata.xml',
      'org/apache/maven/maven-core/maven-metadata.xml',
      'io/tiny/maven/tiny-maven-plugin/maven-metadata.xml.sha1',
      '.meta/prefixes.txt',
      'org/tiny/tiny/maven-metadata.xml',
      'org/tiny/tiny/maven-metadata.xml.sha1',
      'org/tiny/tiny/1.0-SNAPSHOT/maven-metadata.xml',
      'org/tiny/tiny/1.0-SNAPSHOT/tiny-1.0-20260101.120000-1.jar',
      'org/tiny/tiny/1.0-SNAPSHOT/tiny-1.0-SNAPSHOT.jar',
      'org/tiny/tiny/1.0-SNAPSHOT/tiny-1.0-SNAPSHOT.jar.sha1',
      'org/tiny/tiny/1.0.0/tiny-1.0.0.jar.md5',
      'org/tiny/tiny/1.0.0/tiny-1.0.0.jar.sha512',
      'org/tiny/tiny/1.0.0/tiny-1.0.0.jar.asc',
      'org/tiny/tiny/1.0.0/tiny-1.0.0.jar.asc.sha1',
    ],
    null: [
      '',
      'maven-metadata.xml',
      'org/tiny/tiny/1.0.0/',
      'org/tiny/tiny/1.0.0/other-1.0.0.jar',
      'org/tiny/tiny/1.0.0/tiny.jar',
      'tiny/1.0.0/tiny-1.0.0.jar/x',
      'tiny/1.0.0/tiny-1.0.0.jar',
      'org/tiny/tiny/1.0.0/tiny-1.0.0 .jar',
      'org//tiny/1.0.0/tiny-1.0.0.jar',
      'archetype-catalog.xml',
    ],
  }
  for (const [kind, paths] of Object.entries(at)) for (const path of paths) t.is(`${repositoryFile(path)}`, kind, path)
})

test('a SHA-1 is where Maven reads it', t => {
  const hex = 'a9993e364706816aba3e25717850c26c9cd0d89d'
  for (const text of [hex, `${hex.toUpperCase()}\n`, `\n${hex}  tiny-1.0.0.jar\nx`, `SHA1(tiny-1.0.0.jar)= ${hex}`])
    t.deepEqual(checksumIn(text), { algorithm: 'sha1', hex }, text)
  for (const text of ['', hex.slice(1), `${hex}0`, `tiny.jar ${hex}`, `x\n${hex}`, '<html>', hex.replace('a', 'g')])
    t.is(checksumIn(text), null, text)
})
