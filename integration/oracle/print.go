package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// GoSource is a program as calls of package streams. The functions are those of this package.
func GoSource(p *Program) string { return source(p, true) }

// JavaSource is a program as calls of Kafka Streams. The functions are those of Functions.java and Build.java.
func JavaSource(p *Program) string { return source(p, false) }

func source(p *Program, golang bool) string {
	types, err := p.Types()
	if err != nil {
		return err.Error()
	}
	handle := func(i int) string { return fmt.Sprintf("%s%d", types[i].Kind, i) }
	valueType := func(v string) string {
		if !golang {
			return strconv.Quote(v)
		}
		return map[string]string{Text: "string", Long: "int64", Nullable: "*string"}[v]
	}
	var b strings.Builder
	for i, o := range p.Ops {
		def := operators[o.Op]
		pairs := []string{
			"$V", valueType(types[i].V), "$i", strconv.Itoa(i), "$s", strconv.Quote(o.Store), "$t", topicSource(p, o, types, i, golang),
			"$w", windowSource(o, golang), "$o", optionsSource(o), "$n", "named(" + quoteOrNull(o.Name) + ")", "$m", materializedSource(o, types[i].V),
			"$h", heldSource(o, golang), "$k", fmt.Sprintf("%q, %d", o.KF, o.KN), "$j", joinedSource(o, types),
		}
		if def.f.is(records) {
			pairs = append(pairs, "$f", strconv.Quote(o.F))
		} else {
			pairs = append(pairs, "$f", fmt.Sprintf("%q, %d", o.F, o.N))
		}
		for j, in := range o.In {
			pairs = append(pairs, "$"+strconv.Itoa(j), handle(in), "$"+string(rune('A'+j)), valueType(types[in].V))
		}
		key := "string"
		if len(o.In) > 0 && (types[o.In[0]].Kind == WindowedTable || types[o.In[0]].Kind == WindowedStream) {
			key = "window.Windowed[string]"
		}
		pairs = append(pairs, "$K", key)
		switch {
		case def.out == None:
		case golang:
			b.WriteString(handle(i) + " := ")
		default:
			b.WriteString("var " + handle(i) + " = ")
		}
		line := def.java + ";"
		if golang {
			line = def.golang
		}
		b.WriteString(strings.ReplaceAll(strings.NewReplacer(pairs...).Replace(line), "(, ", "(") + "\n")
	}
	return b.String()
}

func (f family) is(other family) bool { return len(f) > 0 && &f[0] == &other[0] }

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return strconv.Quote(s)
}

func topicSource(p *Program, o Op, types []Type, i int, golang bool) string {
	if len(o.Topics) == 0 {
		return ""
	}
	if !golang || o.Op == "route" {
		var names []string
		for _, t := range o.Topics {
			names = append(names, strconv.Quote(t))
		}
		if len(names) > 1 {
			return "List.of(" + strings.Join(names, ", ") + ")"
		}
		return names[0]
	}
	v := types[i].V
	kind := "topic"
	if len(o.In) > 0 {
		v = types[o.In[0]].V
		if types[o.In[0]].Kind == WindowedStream {
			kind = "windowedTopic"
		}
	}
	s := fmt.Sprintf("%s[%s](%q)", kind, map[string]string{Text: "string", Long: "int64", Nullable: "*string"}[v], o.Topics[0])
	for _, t := range o.Topics[1:] {
		s += fmt.Sprintf(".And(%q)", t)
	}
	return s
}

func windowSource(o Op, golang bool) string {
	switch {
	case operators[o.Op].joins && golang:
		return fmt.Sprintf("window.Within(0).Before(ms(%d)).After(ms(%d)).Grace(ms(%d))", o.Before, o.After, o.Grace)
	case strings.HasSuffix(o.Op, "sessionsBy") && golang:
		return fmt.Sprintf("window.Session(ms(%d)).Grace(ms(%d))", o.Size, o.Grace)
	case strings.HasSuffix(o.Op, "sessionsBy"):
		return fmt.Sprintf("SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(%d), Duration.ofMillis(%d))", o.Size, o.Grace)
	case o.F == "sliding" && golang:
		return fmt.Sprintf("window.Sliding(ms(%d)).Grace(ms(%d))", o.Size, o.Grace)
	case o.F == "sliding":
		return fmt.Sprintf("SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(%d), Duration.ofMillis(%d))", o.Size, o.Grace)
	case o.F == "custom" && golang:
		return fmt.Sprintf("window.Custom(Offset(ms(%d))).Grace(ms(%d))", o.Size, o.Grace)
	case o.F == "custom":
		return fmt.Sprintf("offset(%d, %d)", o.Size, o.Grace)
	case o.F == "unlimited" && golang:
		return fmt.Sprintf("window.Unlimited(time.UnixMilli(%d))", o.Advance)
	case o.F == "unlimited":
		return fmt.Sprintf("UnlimitedWindows.of().startOn(Instant.ofEpochMilli(%d))", o.Advance)
	case operators[o.Op].joins:
		return fmt.Sprintf("within(%d, %d, %d)", o.Before, o.After, o.Grace)
	}
	if golang {
		return fmt.Sprintf("window.Hopping(ms(%d), ms(%d)).Grace(ms(%d))", o.Size, o.Advance, o.Grace)
	}
	return fmt.Sprintf("TimeWindows.ofSizeAndGrace(Duration.ofMillis(%d), Duration.ofMillis(%d)).advanceBy(Duration.ofMillis(%d))", o.Size, o.Grace, o.Advance)
}

func heldSource(o Op, golang bool) string {
	if !operators[o.Op].waits {
		return ""
	}
	if golang {
		if o.F == "close" {
			return "streams.UntilWindowCloses"
		}
		return fmt.Sprintf("streams.UntilTimeLimit(ms(%d))", o.Size) +
			map[string]string{"few": fmt.Sprintf(".MaxRecords(%d).EmitEarlyWhenFull()", o.N), "bytes": fmt.Sprintf(".MaxBytes(%d).EmitEarlyWhenFull()", 60*o.N)}[o.F]
	}
	buffer := map[string]string{"few": fmt.Sprintf("BufferConfig.maxRecords(%d)", o.N), "bytes": fmt.Sprintf("BufferConfig.maxBytes(%d)", 60*o.N)}[o.F]
	if buffer == "" {
		buffer = "BufferConfig.unbounded()"
	}
	if o.Knobs != nil {
		buffer += ".withLoggingDisabled()"
	}
	s := fmt.Sprintf("Suppressed.untilTimeLimit(Duration.ofMillis(%d), %s)", o.Size, buffer)
	if o.F == "close" {
		s = fmt.Sprintf("Suppressed.untilWindowCloses(%s)", buffer)
	}
	if o.Name != "" {
		s += fmt.Sprintf(".withName(%q)", o.Name)
	}
	return s
}

func optionsSource(o Op) string {
	var b strings.Builder
	if o.Name != "" {
		fmt.Fprintf(&b, ", streams.Named(%q)", o.Name)
	}
	switch {
	case o.Store == "":
	case operators[o.Op].store == mayStore:
		fmt.Fprintf(&b, ", streams.Materialized(%q)", o.Store)
	case operators[o.Op].store == joinStore:
		fmt.Fprintf(&b, ", streams.StoreName(%q)", o.Store)
	}
	if o.History > 0 {
		fmt.Fprintf(&b, ", streams.Versioned(ms(%d))", o.History)
	}
	if o.Retention > 0 {
		fmt.Fprintf(&b, ", streams.Retention(ms(%d))", o.Retention)
	}
	for _, k := range o.Knobs {
		b.WriteString(", streams." + map[string]string{"memory": "InMemory", "noCaching": "NoCaching", "noLogging": "NoLogging"}[k])
	}
	return b.String()
}

func joinedSource(o Op, types []Type) string {
	if !operators[o.Op].joins {
		return ""
	}
	s := fmt.Sprintf("streamJoined(%s, %s, %q, %q)", quoteOrNull(o.Name), quoteOrNull(o.Store), types[o.In[0]].V, types[o.In[1]].V)
	for _, k := range o.Knobs {
		s += "." + map[string]string{"memory": "withDslStoreSuppliers(IN_MEMORY)", "noLogging": "withLoggingDisabled()"}[k]
	}
	return s
}

func materializedSource(o Op, v string) (text string) {
	if o.Store == "" && o.Knobs == nil {
		return fmt.Sprintf("Materialized.with(Serdes.String(), serde(%q))", v)
	}
	s := "Materialized.as(" + quoteOrNull(o.Store) + ")"
	if o.History > 0 {
		s = fmt.Sprintf("Materialized.as(Stores.persistentVersionedKeyValueStore(%q, Duration.ofMillis(%d)))", o.Store, o.History)
	}
	if o.Retention > 0 {
		defer func() { text += fmt.Sprintf(".withRetention(Duration.ofMillis(%d))", o.Retention) }()
	}
	if o.Store == "" {
		s = "Materialized.with(Serdes.String(), serde(" + strconv.Quote(v) + "))"
	}
	for _, k := range o.Knobs {
		s += "." + map[string]string{"memory": "withStoreType(IN_MEMORY)", "noCaching": "withCachingDisabled()", "noLogging": "withLoggingDisabled()"}[k]
	}
	return s
}
