import type { MailTemplate } from './template.ts'

/** A database whose engine ended again and again, and is not started any more. `ends`: how often in a row. */
export type DatabaseDown = { database: string; ends: number }

export const databaseDown: MailTemplate<DatabaseDown> = {
  'pt-BR': ({ database, ends }) => ({
    subject: `O banco de dados ${database} está parado`,
    text: `Seu banco de dados "${database}" falhou ${ends} vezes seguidas e não será mais iniciado automaticamente.

Nada foi apagado. Os logs dele mostram a causa; se foi falta de memória, dê mais memória a ele. Depois, inicie-o você mesmo.`,
  }),
  'en-US': ({ database, ends }) => ({
    subject: `The database ${database} is down`,
    text: `Your database "${database}" crashed ${ends} times in a row, and is no longer started automatically.

Nothing was deleted. Its log shows the cause; if it was a lack of memory, give it more. Then start it yourself.`,
  }),
  'es-ES': ({ database, ends }) => ({
    subject: `La base de datos ${database} está detenida`,
    text: `Tu base de datos «${database}» ha fallado ${ends} veces seguidas y ya no se inicia automáticamente.

No se ha borrado nada. Su registro muestra la causa; si fue la falta de memoria, dale más. Después, iníciala tú.`,
  }),
  'zh-CN': ({ database, ends }) => ({
    subject: `数据库 ${database} 已停止运行`,
    text: `您的数据库“${database}”连续 ${ends} 次意外终止，系统将不再自动启动它。

没有删除任何数据。数据库的日志会显示原因；如果是内存不足，请为其增加内存，然后手动启动。`,
  }),
  'ja-JP': ({ database, ends }) => ({
    subject: `データベース ${database} は停止しています`,
    text: `データベース「${database}」は ${ends} 回続けて異常終了したため、自動では起動されなくなりました。

データは削除されていません。原因はログで確認できます。メモリ不足の場合はメモリを増やし、その後、手動で起動してください。`,
  }),
  'fr-FR': ({ database, ends }) => ({
    subject: `La base de données ${database} est à l'arrêt`,
    text: `Votre base de données « ${database} » a planté ${ends} fois de suite et n'est plus redémarrée automatiquement.

Rien n'a été supprimé. Son journal en montre la cause ; si la mémoire a manqué, donnez-lui-en plus. Ensuite, démarrez-la vous-même.`,
  }),
  'de-DE': ({ database, ends }) => ({
    subject: `Die Datenbank ${database} steht still`,
    text: `Ihre Datenbank „${database}“ ist ${ends} Mal in Folge abgestürzt und wird nicht mehr automatisch gestartet.

Es wurde nichts gelöscht. Ihr Protokoll zeigt die Ursache; war es Speichermangel, geben Sie ihr mehr Arbeitsspeicher. Starten Sie sie danach selbst.`,
  }),
  'it-IT': ({ database, ends }) => ({
    subject: `Il database ${database} è fermo`,
    text: `Il tuo database "${database}" è andato in crash ${ends} volte di seguito e non viene più avviato automaticamente.

Non è stato cancellato nulla. Il suo log mostra la causa; se è mancata la memoria, assegnagliene di più. Poi avvialo tu.`,
  }),
}

/** A database whose engine has crashed, and is started again. `ends`: how often within a day. */
export type DatabaseCrashed = { database: string; ends: number }

export const databaseCrashed: MailTemplate<DatabaseCrashed> = {
  'pt-BR': ({ database, ends }) => ({
    subject: `O banco de dados ${database} falhou e está sendo reiniciado`,
    text: `Seu banco de dados "${database}" foi encerrado de forma inesperada e é iniciado novamente de forma automática. Encerramentos inesperados em um dia: ${ends}.

As conexões foram interrompidas. O status e os logs dele mostram a causa; se foi falta de memória, dê mais memória a ele.`,
  }),
  'en-US': ({ database, ends }) => ({
    subject: `The database ${database} crashed and is being restarted`,
    text: `Your database "${database}" ended unexpectedly, and is started again automatically. Crashes within a day: ${ends}.

Its connections were closed. Its status and log show the cause; if it was a lack of memory, give it more.`,
  }),
  'es-ES': ({ database, ends }) => ({
    subject: `La base de datos ${database} ha fallado y se está reiniciando`,
    text: `Tu base de datos «${database}» ha terminado de forma inesperada y se vuelve a iniciar automáticamente. Finales inesperados en un día: ${ends}.

Sus conexiones se han cerrado. Su estado y su registro muestran la causa; si fue la falta de memoria, dale más.`,
  }),
  'zh-CN': ({ database, ends }) => ({
    subject: `数据库 ${database} 意外终止，正在重新启动`,
    text: `您的数据库“${database}”意外终止，系统会自动重新启动它。一天内意外终止次数：${ends}。

其连接已断开。数据库的状态和日志会显示原因；如果是内存不足，请为其增加内存。`,
  }),
  'ja-JP': ({ database, ends }) => ({
    subject: `データベース ${database} が異常終了し、再起動されます`,
    text: `データベース「${database}」が異常終了し、自動的に再起動されます。1 日以内の異常終了: ${ends} 回。

接続は切断されました。原因はステータスとログで確認できます。メモリ不足の場合はメモリを増やしてください。`,
  }),
  'fr-FR': ({ database, ends }) => ({
    subject: `La base de données ${database} a planté et redémarre`,
    text: `Votre base de données « ${database} » s'est arrêtée de façon inattendue et est redémarrée automatiquement. Arrêts inattendus en un jour : ${ends}.

Ses connexions ont été fermées. Son état et son journal en montrent la cause ; si la mémoire a manqué, donnez-lui-en plus.`,
  }),
  'de-DE': ({ database, ends }) => ({
    subject: `Die Datenbank ${database} ist abgestürzt und wird neu gestartet`,
    text: `Ihre Datenbank „${database}“ wurde unerwartet beendet und wird automatisch wieder gestartet. Unerwartete Enden innerhalb eines Tages: ${ends}.

Verbindungen zu ihr wurden geschlossen. Status und Protokoll zeigen die Ursache; war es Speichermangel, geben Sie ihr mehr Arbeitsspeicher.`,
  }),
  'it-IT': ({ database, ends }) => ({
    subject: `Il database ${database} è andato in crash e viene riavviato`,
    text: `Il tuo database "${database}" è terminato in modo imprevisto e viene riavviato automaticamente. Terminazioni impreviste in un giorno: ${ends}.

Le sue connessioni sono state chiuse. Il suo stato e il suo log mostrano la causa; se è mancata la memoria, assegnagliene di più.`,
  }),
}
