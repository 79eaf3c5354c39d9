import test from 'ava'
import { xmlError, xmlResult } from '../../../api/s3/xml.ts'

test('a result has the namespace of S3, an error has none', t => {
  const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
  const xmlns = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
  t.is(xmlResult('LocationConstraint', 'auto'), `${declaration}<LocationConstraint ${xmlns}>auto</LocationConstraint>`)
  t.is(xmlError({ Code: 'NoSuchKey' }), `${declaration}<Error><Code>NoSuchKey</Code></Error>`)
})

const inside = (content: Parameters<typeof xmlError>[0]) => /<Error>(.*)<\/Error>/s.exec(xmlError(content))?.[1]

test('lists repeat their element, empty texts stay, and what is undefined is left out', t => {
  const content = {
    Key: ['a', 'b'],
    Prefix: '',
    Marker: undefined,
    None: null,
    Size: 0,
    IsTruncated: false,
    Owner: { ID: '1' },
  }
  t.is(
    inside(content),
    '<Key>a</Key><Key>b</Key><Prefix></Prefix><Size>0</Size><IsTruncated>false</IsTruncated><Owner><ID>1</ID></Owner>',
  )
  t.is(inside({ At: new Date(0) }), '<At>1970-01-01T00:00:00.000Z</At>')
})

test('no text can end its element or make the document invalid', t => {
  t.is(inside({ Key: '</Key>&"<x>' }), '<Key>&lt;/Key&gt;&amp;&quot;&lt;x&gt;</Key>')
  t.is(inside({ Key: 'a\tb\r\nc' }), '<Key>a&#9;b&#13;&#10;c</Key>')
  t.is(inside({ Key: '\0\x01\x1f\ufffe\ud800🐎' }), '<Key>\ufffd\ufffd\ufffd\ufffd\ufffd🐎</Key>')
})
