import type { MailTemplate } from './template.ts'

/** A database that stays near the limit of its memory. */
export type DatabaseMemory = { database: string; usedMb: number; limitMb: number; percent: number }

export const databaseMemory: MailTemplate<DatabaseMemory> = {
  'pt-BR': ({ database, usedMb, limitMb, percent }) => ({
    subject: `O banco de dados ${database} está usando ${percent}% da memória`,
    text: `Seu banco de dados "${database}" está usando ${usedMb} MB dos ${limitMb} MB de memória disponíveis para ele (${percent}%).

Se precisar de mais, um banco Redis recusa gravações; um banco de qualquer outro tipo é encerrado e iniciado novamente. Para evitar isso, dê mais memória a ele, ou reduza o que ele guarda e o número de conexões.`,
  }),
  'en-US': ({ database, usedMb, limitMb, percent }) => ({
    subject: `The database ${database} is using ${percent}% of its memory`,
    text: `Your database "${database}" is using ${usedMb} MB of the ${limitMb} MB of memory available to it (${percent}%).

If it needs more, a Redis database refuses writes; a database of any other type is stopped and restarted. To prevent this, give it more memory, or reduce what it holds and the number of connections.`,
  }),
  'es-ES': ({ database, usedMb, limitMb, percent }) => ({
    subject: `La base de datos ${database} está usando el ${percent} % de su memoria`,
    text: `Tu base de datos «${database}» está usando ${usedMb} MB de los ${limitMb} MB de memoria disponibles para ella (${percent} %).

Si necesita más, una base de datos Redis rechaza las escrituras; una de cualquier otro tipo se cierra y se vuelve a iniciar. Para evitarlo, dale más memoria, o reduce lo que guarda y el número de conexiones.`,
  }),
  'zh-CN': ({ database, usedMb, limitMb, percent }) => ({
    subject: `数据库 ${database} 已使用 ${percent}% 的内存`,
    text: `您的数据库“${database}”可用内存为 ${limitMb} MB，目前已使用 ${usedMb} MB（${percent}%）。

如果需要更多内存，Redis 数据库会拒绝写入，其他类型的数据库则会被终止并重新启动。为避免这种情况，请为其增加内存，或者减少其中的数据和连接数。`,
  }),
  'ja-JP': ({ database, usedMb, limitMb, percent }) => ({
    subject: `データベース ${database} のメモリ使用率が ${percent}% に達しています`,
    text: `データベース「${database}」は、使用できるメモリ ${limitMb} MB のうち ${usedMb} MB（${percent}%）を使用しています。

これ以上必要になると、Redis のデータベースは書き込みを拒否し、それ以外の種類のデータベースは強制終了されて再起動します。これを防ぐには、メモリを増やすか、保持するデータと接続数を減らしてください。`,
  }),
  'fr-FR': ({ database, usedMb, limitMb, percent }) => ({
    subject: `La base de données ${database} utilise ${percent} % de sa mémoire`,
    text: `Votre base de données « ${database} » utilise ${usedMb} Mo des ${limitMb} Mo de mémoire dont elle dispose (${percent} %).

S'il lui en faut davantage, une base Redis refuse les écritures ; une base de tout autre type est arrêtée puis redémarrée. Pour l'éviter, donnez-lui plus de mémoire, ou réduisez ce qu'elle contient et le nombre de connexions.`,
  }),
  'de-DE': ({ database, usedMb, limitMb, percent }) => ({
    subject: `Die Datenbank ${database} belegt ${percent} % ihres Arbeitsspeichers`,
    text: `Ihre Datenbank „${database}“ belegt ${usedMb} MB der ${limitMb} MB Arbeitsspeicher, die ihr zur Verfügung stehen (${percent} %).

Braucht sie mehr, lehnt eine Redis-Datenbank Schreibzugriffe ab; eine Datenbank jedes anderen Typs wird beendet und neu gestartet. Um das zu verhindern, geben Sie ihr mehr Arbeitsspeicher, oder verringern Sie ihren Inhalt und die Zahl der Verbindungen.`,
  }),
  'it-IT': ({ database, usedMb, limitMb, percent }) => ({
    subject: `Il database ${database} sta usando il ${percent}% della memoria`,
    text: `Il tuo database "${database}" sta usando ${usedMb} MB dei ${limitMb} MB di memoria a sua disposizione (${percent}%).

Se ne serve di più, un database Redis rifiuta le scritture; un database di qualsiasi altro tipo viene terminato e riavviato. Per evitarlo, assegnagli più memoria, oppure riduci ciò che contiene e il numero di connessioni.`,
  }),
}
