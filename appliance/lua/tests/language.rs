//! What programs see of the language, its libraries and its limits. Expected values are those of
//! Lua 5.2's manual and of OpenZFS's interpreter where that differs.

use lua::{Complaint, Datum, Failure, FunctionId, Host, Program, run};

/// A host with `show(...)`, which returns its arguments, `rows()`, `fail()` and `refuse(x)`.
#[derive(Default)]
struct Shell {
    cancel_after: Option<u64>,
}

const FUNCTIONS: &[(&str, FunctionId)] = &[("show", 1), ("rows", 2), ("shell.fail", 3), ("refuse", 4)];

impl Host for Shell {
    fn call(&mut self, function: FunctionId, arguments: Vec<Datum>) -> Result<Vec<Datum>, Complaint> {
        match function {
            1 => Ok(arguments),
            2 => Ok(vec![Datum::Rows(vec![
                vec![Datum::text("a"), Datum::Number(1)],
                vec![Datum::text("b"), Datum::Number(2)],
            ])]),
            3 => Err(Complaint::Error("it failed".to_owned())),
            _ => Err(Complaint::Argument(1, "no such thing".to_owned())),
        }
    }

    fn is_cancelled(&mut self) -> bool {
        self.cancel_after = self.cancel_after.map(|left| left.saturating_sub(1));
        self.cancel_after == Some(0)
    }
}

fn run_with(
    source: &str,
    instruction_limit: u64,
    memory_limit: usize,
    host: &mut Shell,
) -> Result<Option<Datum>, Failure> {
    let program = Program {
        source: source.as_bytes(),
        argument: Datum::Table(vec![(Datum::text("argv"), Datum::array([Datum::text("one"), Datum::text("two")]))]),
        globals: &[("ENOENT", 2)],
        functions: FUNCTIONS,
        instruction_limit,
        memory_limit,
    };
    run(&program, host)
}

fn result(source: &str) -> Result<Option<Datum>, Failure> {
    run_with(source, 10_000_000, 10 << 20, &mut Shell::default())
}

fn number(source: &str) -> i64 {
    match result(source) {
        Ok(Some(Datum::Number(number))) => number,
        other => panic!("{source}: {other:?}"),
    }
}

fn text(source: &str) -> String {
    match result(source) {
        Ok(Some(Datum::Text(text))) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{source}: {other:?}"),
    }
}

fn error(source: &str) -> String {
    match result(source) {
        Err(Failure::Error(message) | Failure::Syntax(message) | Failure::Result(message)) => message,
        other => panic!("{source}: {other:?}"),
    }
}

fn at_line(line: u32, message: &str) -> String {
    format!("[string \"channel program\"]:{line}: {message}")
}

#[test]
fn numbers_are_integers_of_64_bits() {
    for (source, expected) in [
        ("return 7 / 2", 3),
        ("return -7 / 2", -4),
        ("return -7 % 3", 2),
        ("return 2 ^ 10", 1024),
        ("return -2 ^ 2", -4),
        ("return 0x7fffffffffffffff + 1", i64::MIN),
        ("return 9007199254740993", 9_007_199_254_740_993),
        ("return 18446744073709551615", -1),
        ("return 010", 8),
        ("return '10' + 5", 15),
        ("return tonumber('ff', 16)", 255),
        ("return #'abc'", 3),
        ("return 1 + 2 * 3 - 4 / 2", 5),
    ] {
        assert_eq!(number(source), expected, "{source}");
    }
    for source in ["return 1.5", "return 1e3", "return 3..2"] {
        assert!(error(source).contains("malformed number near"), "{source}");
    }
    assert!(error("return 1 / 0").starts_with(&at_line(1, "attempt to divide by zero\nstack traceback:\n\t")));
    assert!(error("return 1 % 0").starts_with(&at_line(1, "attempt to perform 'n%0'")));
}

#[test]
fn statements_and_scopes() {
    for (source, expected) in [
        ("local n = 0; for i = 1, 10, 3 do n = n + i end; return n", 22),
        ("local n = 0; for i = 3, 1, -1 do n = n * 10 + i end; return n", 321),
        ("local n = 0; for i = 2, 1 do n = 1 end; return n", 0),
        ("local n = 0; while true do n = n + 1; if n > 4 then break end end; return n", 5),
        ("local n = 0; repeat local m = n; n = n + 1 until m >= 3; return n", 4),
        (
            "for i = 1, 3 do for j = 1, 3 do if j == 2 then goto next end; x = (x or 0) + j; ::next:: end end; return x",
            12,
        ),
        ("local n = 0; ::again:: n = n + 1; if n < 5 then goto again end; return n", 5),
        ("local a, b, c = (function() return 1, 2, 3 end)(); return a * 100 + b * 10 + c", 123),
        ("local a, b = ((function() return 1, 2 end)()); return b == nil and a or 0", 1),
        ("local t = {(function() return 1, 2 end)(), (function() return 1, 2 end)()}; return #t", 3),
        ("local function f(...) local a, b = ...; return select('#', ...) * 10 + b end; return f(1, 2, nil)", 32),
        ("a, b = 1, 2; a, b = b, a; return a * 10 + b", 21),
        ("local t = {1, 2, nil, 4}; return #t", 4),
        ("local t = {}; for i = 1, 100 do t[i] = i end; for i = 100, 51, -1 do t[i] = nil end; return #t", 50),
        (
            "local fs = {}; for i = 1, 3 do fs[i] = function() i = i + 1; return i end end; fs[1](); return fs[1]() * 10 + fs[2]()",
            33,
        ),
        ("local function f(n) if n == 0 then return 0 end; return f(n - 1) end; return f(100000)", 0),
        ("local function f(n) if n == 0 then return 0 end; return f(n - 1) + 1 end; return f(10000)", 10_000),
        (
            "local t = setmetatable({}, {__index = function(_, k) return k * 2 end, __call = function(_, n) return n + 1 end}); return t[4] * t(1)",
            16,
        ),
        (
            "function o() return {n = 1, add = function(self, k) self.n = self.n + k; return self end} end; return o():add(2):add(3).n",
            6,
        ),
        ("local t = {[1] = 1, x = 2; 3}; return t[1] + t.x", 5),
        ("local n = 0; for k, v in pairs({1, 2, x = 3, [true] = 4}) do n = n + v end; return n", 10),
        ("local n = 0; for i, v in ipairs({1, 2, nil, 4}) do n = n + v end; return n", 3),
        ("local t = {1, 2, 3, x = 1}; for k in pairs(t) do t[k] = nil end; return next(t) == nil and 1 or 0", 1),
        ("return (...)['argv'][2] == 'two' and ENOENT or 0", 2),
    ] {
        assert_eq!(number(source), expected, "{source}");
    }
}

#[test]
fn strings_and_patterns() {
    for (source, expected) in [
        ("return 'a' .. 1 .. 2 .. 'b'", "a12b"),
        ("return ('hello'):sub(2, -2)", "ell"),
        ("return (string.gsub('hello world', 'o', '0'))", "hell0 w0rld"),
        ("return (string.gsub('abc', '(%w)', '%1%1'))", "aabbcc"),
        ("return (string.gsub('$x $y', '%$(%w)', {x = 'one', y = 2}))", "one 2"),
        ("return (string.gsub('abc', '', '-'))", "-a-b-c-"),
        ("return string.match('tank/fs@snap', '@(.*)$')", "snap"),
        ("return table.concat({string.find('a.b', '.', 1, true)}, ',')", "2,2"),
        ("local t = {}; for w in string.gmatch('one two', '%a+') do t[#t + 1] = w end; return t[2] .. t[1]", "twoone"),
        ("return string.format('%5d|%-5s|%05d|%x|%q', 42, 'ab', -7, 255, 'a\\nb')", "   42|ab   |-0007|ff|\"a\\\nb\""),
        ("return string.format('%.3d %+d %s', 5, 5, nil)", "005 +5 nil"),
        ("return ('x'):rep(3, ',')", "x,x,x"),
        ("return ('abc'):reverse():upper()", "CBA"),
        ("return [[\nlong]] .. '\\65\\x42\\z   c'", "longABc"),
        ("return table.concat({1, 2, 3}, ', ', 2)", "2, 3"),
        ("local t = {3, 1, 2}; table.sort(t, function(a, b) return a > b end); return table.concat(t)", "321"),
        ("local t = {1, 3}; table.insert(t, 2, 2); return table.concat(t) .. table.remove(t, 1) .. #t", "12312"),
        ("return tostring(setmetatable({}, {__tostring = function() return 'shown' end}))", "shown"),
        ("return string.match('[[x]]', '%b[]')", "[[x]]"),
        ("return string.match('THE (quick) fox', '%f[%a]%a+%f[%A]')", "THE"),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
    assert!(error("table.sort(setmetatable({}, {__len = function() return 2 ^ 62 end}))").contains("array too big"));
    assert!(error("return string.rep('x', 5):find('[a')").contains("malformed pattern (missing ']')"));
    assert!(
        error("return string.format('%d', 'x')").contains("bad argument #2 to 'format' (number expected, got string)")
    );
}

#[test]
fn coroutines_yield_from_anywhere_in_lua() {
    let generator = "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)\n";
    assert_eq!(number(&format!("{generator}return f() + f() + f()")), 6);
    let inside = "local t = setmetatable({}, {__add = function(a, b) return coroutine.yield('x') end})
        local co = coroutine.create(function() return t + 1 end)
        local _, x = coroutine.resume(co); local _, y = coroutine.resume(co, 5)
        return x .. y .. coroutine.status(co)";
    assert_eq!(text(inside), "x5dead");
    let fails = "local co = coroutine.create(function() error('inside') end)
        local ok, message = coroutine.resume(co); return tostring(ok) .. message";
    assert_eq!(text(fails), format!("false{}", at_line(1, "inside")));
    assert!(error("coroutine.yield()").contains("attempt to yield from outside a coroutine"));
    let sort = "local co = coroutine.wrap(function() table.sort({2, 1}, coroutine.yield) end); co()";
    assert!(error(sort).contains("attempt to yield across a C-call boundary"));
}

#[test]
fn errors_name_the_place_and_the_variable() {
    for (source, expected) in [
        ("abc.x = 1", "attempt to index global 'abc' (a nil value)"),
        ("local a = {}; a.b.c = 1", "attempt to index field 'b' (a nil value)"),
        ("local a; a()", "attempt to call local 'a' (a nil value)"),
        ("local a = {}; a:run()", "attempt to call method 'run' (a nil value)"),
        ("return {} .. 'x'", "attempt to concatenate a table value"),
        ("return 1 < 'x'", "attempt to compare number with string"),
        ("return {} < {}", "attempt to compare two table values"),
        ("return #5", "attempt to get length of a number value"),
        ("for i = 'x', 2 do end", "'for' initial value must be a number"),
        ("local t = {}; t[nil] = 1", "table index is nil"),
        ("setmetatable(1, {})", "bad argument #1 to 'setmetatable' (table expected, got number)"),
        ("error('plain')", "plain"),
        ("assert(false)", "assertion failed!"),
        ("shell.fail()", "it failed"),
        ("refuse('x')", "bad argument #1 to 'refuse' (no such thing)"),
        ("local x = 5 +", "unexpected symbol near <eof>"),
        ("x = = 1", "unexpected symbol near '='"),
        ("if x then", "'end' expected near <eof>"),
        ("goto nowhere", "no visible label 'nowhere' for <goto> at line 1"),
        ("break", "<break> at line 1 not inside a loop"),
        ("local function f() return ... end", "cannot use '...' outside a vararg function near '...'"),
        ("return 'x\n'", "unfinished string near ''x'"),
        ("return 'x", "unfinished string near <eof>"),
    ] {
        let message = error(source);
        assert!(message.starts_with(&at_line(1, expected)), "{source}: {message}");
    }
    assert_eq!(
        error("local function inner()\n  error('deep')\nend\nfunction outer() inner() end\nouter()"),
        at_line(2, "deep")
            + "\nstack traceback:\n\t[C]: in function 'error'\n\t[string \"channel program\"]:2: in function 'inner'\n\t\
               [string \"channel program\"]:4: in function 'outer'\n\t[string \"channel program\"]:5: in main chunk"
    );
}

#[test]
fn nothing_reads_files_or_code() {
    for name in [
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "print",
        "pcall",
        "xpcall",
        "require",
        "io",
        "os",
        "math",
        "debug",
        "package",
        "bit32",
        "string.dump",
    ] {
        assert_eq!(result(&format!("return {name}")), Ok(Some(Datum::Nil)), "{name}");
    }
}

#[test]
fn instructions_are_limited_in_every_kind_of_loop() {
    for source in [
        "while true do end",
        "::again:: goto again",
        "repeat until false",
        "for i = 1, 0x7fffffffffffffff do end",
        "local function f() return f() end; f()",
        "while true do local co = coroutine.wrap(function() while true do coroutine.yield() end end); co() end",
        "local t = setmetatable({}, {}); getmetatable(t).__index = function(t, k) return t[k + 1] end; return t[1]",
        "local s = ('a'):rep(100000); return s:find('.-.-.-.-b')",
        "local s = ('a'):rep(4000000); return s:find(('a'):rep(1000000) .. 'b', 1, true)",
        "local t = setmetatable({}, {__len = function() return 2 ^ 62 end}); table.insert(t, 1, 1)",
        "local t = setmetatable({}, {__len = function() return 2 ^ 62 end}); table.remove(t, 1)",
        "local t = setmetatable({}, {__len = function() return 0x7ffffffffffffffe end}); table.insert(t, 1, 1)",
        "local co = coroutine.create(function() while true do end end); while true do coroutine.resume(co) end",
    ] {
        match run_with(source, 100_000, 100 << 20, &mut Shell::default()) {
            Err(Failure::TimedOut(message, executed)) => {
                assert!(message.starts_with("Channel program timed out.\nstack traceback:"), "{source}: {message}");
                assert!(executed <= 100_200 || source.contains("find"), "{source}: {executed}");
            }
            other => panic!("{source}: {other:?}"),
        }
    }
    // The same program counts the same.
    let count = |limit| match run_with("while true do x = 1 end", limit, 10 << 20, &mut Shell::default()) {
        Err(Failure::TimedOut(_, executed)) => executed,
        other => panic!("{other:?}"),
    };
    assert_eq!([1000, 1000, 12_345].map(count), [1100, 1100, 12_400]);
}

#[test]
fn work_of_library_functions_is_limited() {
    for (start, body) in [
        ("local t = {}; for i = 1, 1000 do t[i] = {} end", "collectgarbage()"),
        ("local t = {}; for i = 1, 1000 do t[i] = '' end", "table.concat(t)"),
        ("local s, set = ('a'):rep(1000), '[' .. ('b'):rep(1000) .. ']'", "s:find(set)"),
        ("local s, set = ('a'):rep(1000), '[' .. ('b'):rep(1000) .. ']-c'", "s:find(set)"),
        ("local s = (' '):rep(100000)", "tonumber(s)"),
        ("local s, t = ('a'):rep(100000) .. 'b', ('a'):rep(100000) .. 'c'", "local x = s < t"),
        ("local s = ('a'):rep(100000)", "s:upper()"),
        ("local s = ('a'):rep(100000)", "show(s)"),
        ("local t = {}; for i = 1, 800 do t[i] = i end", "table.insert(t, 1, 1); table.remove(t, 1)"),
    ] {
        // By itself, the loop takes less than half of that.
        let source = format!("{start}; for i = 1, 2000 do {body} end");
        let ended = run_with(&source, 100_000, 100 << 20, &mut Shell::default());
        assert!(matches!(ended, Err(Failure::TimedOut(..))), "{source}: {ended:?}");
    }
    // What does not look at a text costs nothing for its length.
    let cheap = "local s, n = ('a'):rep(1000000), 0; \
                 for i = 1, 10000 do n = n + s:len() + s:byte(i) + #s:sub(i, i) end; return n";
    assert_eq!(run_with(cheap, 300_000, 10 << 20, &mut Shell::default()), Ok(Some(Datum::Number(10_000_980_000))));
    // The host ends a match.
    let source = "local s = ('a'):rep(100000); return s:find('.-.-.-.-b')";
    let ended = run_with(source, 100_000_000, 1 << 20, &mut Shell { cancel_after: Some(3) });
    assert!(matches!(ended, Err(Failure::Cancelled(_))), "{ended:?}");
}

#[test]
fn weak_tables_are_counted_as_they_are() {
    let source = "local before; local w = setmetatable({}, {__mode = 'k'}); \
        for round = 1, 20 do for i = 1, 2000 do w[{}] = i end; collectgarbage(); \
        before = before or collectgarbage('count') end; \
        return collectgarbage('count') - before";
    assert!((-20..20).contains(&number(source)), "{}", number(source));
}

#[test]
fn memory_is_limited_however_it_is_used() {
    for source in [
        "local t = {}; for i = 1, 1e9 do t[i] = i end".replace("1e9", "1000000000"),
        "local s = 'x'; while true do s = s .. s end".to_owned(),
        "return ('x'):rep(1000000000)".to_owned(),
        "local function f(x) return f(x) + 1 end; f(1)".to_owned(),
        "local t = {}; while true do t = {t} end".to_owned(),
        "local t = {}; while true do t[#t + 1] = function() return t end end".to_owned(),
        "local t = {}; while true do t[#t + 1] = coroutine.create(function() end) end".to_owned(),
        "local t = {}; while true do t[#t + 1] = tostring(#t) end".to_owned(),
        "return table.unpack({}, 1, 900000)".to_owned(),
        "return (string.gsub(('x'):rep(2 ^ 20), '.*', ('%0'):rep(2 ^ 18)))".to_owned(),
        "return (string.gsub(('x'):rep(2 ^ 20), '(.*)', ('%1'):rep(2 ^ 18)))".to_owned(),
        "local s = ('x'):rep(2 ^ 20); return (s:sub(1, 100):gsub('.', function() return s end))".to_owned(),
        "local s = ('x'):rep(2 ^ 20); return (s:sub(1, 100):gsub('.', {x = s}))".to_owned(),
        "local t = {('x'):rep(1000000)}; for i = 1, 100 do t[i + 1] = t[1] end; return table.concat(t)".to_owned(),
    ] {
        let ended = run_with(&source, 100_000_000, 4 << 20, &mut Shell::default());
        assert_eq!(ended, Err(Failure::Memory), "{source}");
    }
    // Garbage does not count, and circles are garbage.
    let circles = "for i = 1, 100000 do local t = {}; t.t = t; local s = 'string ' .. i end; return 1";
    assert_eq!(run_with(circles, 10_000_000, 1 << 20, &mut Shell::default()), Ok(Some(Datum::Number(1))));
}

#[test]
fn a_host_can_end_a_program() {
    let ended = run_with("while true do end", 100_000_000, 1 << 20, &mut Shell { cancel_after: Some(3) });
    let Err(Failure::Cancelled(message)) = ended else { panic!("{ended:?}") };
    assert!(message.starts_with("Channel program was canceled."), "{message}");
}

#[test]
fn values_leave_a_program_as_data() {
    assert_eq!(result("x = 1"), Ok(None));
    assert_eq!(result("return nil"), Ok(Some(Datum::Nil)));
    let entries = |list: &[(&str, Datum)]| {
        Ok(Some(Datum::Table(list.iter().map(|(key, value)| (Datum::text(key), value.clone())).collect())))
    };
    assert_eq!(
        result("return {1, b = true, [false] = 'x'}"),
        entries(&[("1", Datum::Number(1)), ("b", Datum::Boolean(true)), ("false", Datum::text("x"))])
    );
    let two = "for name, n in rows() do x = (x or '') .. name .. n end; return x";
    assert_eq!(text(two), "a1b2");
    assert_eq!(result("return (show({1, 2}))"), entries(&[("1", Datum::Number(1)), ("2", Datum::Number(2))]));
    for (source, expected) in [
        ("return 1, 2", "Multiple return values not supported"),
        ("return {[0] = 1, ['0'] = 2}", "Collision of key '0' in table"),
        ("return {[{}] = 1}", "Invalid key type 'table' in table"),
        ("return {x = assert}", "Invalid value type 'function' for key 'x'"),
        ("return function() end", "Invalid value type 'function' for key 'return'"),
        ("local t = {}; t.t = t; return t", "Maximum table depth (20) exceeded for table"),
    ] {
        assert_eq!(error(source), expected, "{source}");
    }
}

#[test]
fn results_have_a_size() {
    let shared = "local t = {}; for i = 1, 18 do t = {t, t, t, t, t, t, t, t, t, t} end; return t";
    assert_eq!(error(shared), "Return value too large.");
    let texts = "local s, t = ('x'):rep(1000000), {}; for i = 1, 20 do t[i] = s end; return t";
    assert_eq!(error(texts), "Return value too large.");
    let mut host = Shell { cancel_after: Some(5) };
    let ended = run_with(shared, 10_000_000, 1 << 30, &mut host);
    assert!(matches!(ended, Err(Failure::Cancelled(_))), "{ended:?}");
}

#[test]
fn compiling_is_limited() {
    let chains = "x = a.b .. c.d .. e.f\n".repeat(20_000);
    assert_eq!(run_with(&chains, 1000, 4 << 20, &mut Shell::default()), Err(Failure::Memory));
    assert!(lua::compile(chains.as_bytes(), 100 << 20).is_ok());
    let jumps = |count: usize| format!("{} ::a:: ", "do goto a end ".repeat(count));
    assert!(lua::compile(jumps(30_000).as_bytes(), 100 << 20).is_ok());
    assert_eq!(error(&jumps(33_000)), "too many labels/gotos (limit is 32767)");
    // What an operand was is still known within a chain.
    assert!(error("local a, b = 'x', {}; return a .. b.c .. a").contains("attempt to concatenate field 'c'"));
}

#[test]
fn nested_statements_are_limited() {
    let nested = |count: usize| "if true then\n".repeat(count) + &"end\n".repeat(count);
    assert_eq!(result(&nested(17)), Ok(None));
    assert!(error(&nested(200)).contains("too many C levels (limit is 20) in main function"));
    assert!(error(&format!("return {}1{}", "(".repeat(1000), ")".repeat(1000))).contains("too many C levels"));
    assert!(
        error("function f(s) return string.gsub(s, '.', f) end; return f('foo')").starts_with("C stack overflow\n")
    );
}

#[test]
fn library_functions_that_call_each_other_have_a_depth() {
    for source in [
        "local t = setmetatable({}, {}); \
         getmetatable(t).__index = function(_, k) return (string.gsub('a', 'a', t)) end; string.gsub('a', 'a', t)",
        "local f = function() end; for i = 1, 20000 do f = coroutine.wrap(f) end; f()",
        "local function f() return coroutine.wrap(f)() end; f()",
    ] {
        assert!(error(source).contains("C stack overflow"), "{source}: {}", error(source));
    }
    let resumed = "local function f() return select(2, coroutine.resume(coroutine.create(f))) end; return f()";
    assert_eq!(text(resumed), "C stack overflow");
    // Those that have ended do not count.
    let ended = "local n = 0; for i = 1, 100 do coroutine.wrap(function() n = n + 1; coroutine.yield() end)() end; \
                 for i = 1, 100 do coroutine.resume(coroutine.create(error)); n = n + 1 end; return n";
    assert_eq!(number(ended), 200);
}

#[test]
fn coroutines_may_be_library_functions() {
    for source in [
        "table.sort({2, 1}, coroutine.wrap(error))",
        "string.gsub('a', 'a', setmetatable({}, {__index = coroutine.wrap(error)}))",
        "string.gsub('a', 'a', coroutine.wrap(error))",
    ] {
        assert!(matches!(result(source), Err(Failure::Error(_))), "{source}");
    }
    let endless = "table.sort({2, 1}, coroutine.wrap(function() while true do end end))";
    assert!(matches!(result(endless), Err(Failure::TimedOut(..))));
    let nested = "return coroutine.resume(coroutine.create(coroutine.resume), \
                  coroutine.create(function() error('x', 0) end))";
    assert_eq!(
        text(&format!(
            "local a, b, c = (function() {nested} end)(); \
                              return tostring(a) .. tostring(b) .. c"
        )),
        "truefalsex"
    );
}

#[test]
fn programs_of_random_bytes_are_refused_without_a_panic() {
    let words = [
        "if", "then", "end", "x", "=", "1", "(", ")", "{", "}", "..", "function", "return", "local", "for", "do", "in",
        "goto", "::", ",", "'s'", "...", "while", "repeat", "until", "and", "not", "-", "[", "]", ".", ":", "break",
    ];
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..20_000 {
        let source: Vec<&str> = (0..random() % 24).map(|_| words[random() % words.len()]).collect();
        let _ = run_with(&source.join(" "), 1000, 1 << 20, &mut Shell::default());
    }
}
